package hooks_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
)

// published are examples of the documentation of the senders. That of Stripe contains no secret: its signature is made with
// openssl dgst -sha256 -hmac.
func published() map[hooks.Provider]struct {
	secret, body string
	headers      hooks.Headers
	at           int64
} {
	type example = struct {
		secret, body string
		headers      hooks.Headers
		at           int64
	}
	return map[hooks.Provider]example{
		hooks.GitHub: {
			"It's a Secret to Everybody", "Hello, World!",
			hooks.Headers{"x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"},
			0,
		},
		hooks.Stripe: {
			"whsec_test_secret_of_orch", `{"id":"evt_1","type":"charge.succeeded"}`,
			hooks.Headers{"stripe-signature": "t=1492774577,v1=9064ae63d96a9917c8028d61ea20e0e8be496a64ed2279cb0e9a9af1030248ca,v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39"},
			1492774577,
		},
		hooks.Slack: {
			"8f742231b10e8888abcd99yyyzzz85a5",
			"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
			hooks.Headers{"x-slack-request-timestamp": "1531420618", "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"},
			1531420618,
		},
		hooks.Standard: {
			"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", `{"test": 2432232314}`,
			hooks.Headers{"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330", "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
			1614265330,
		},
	}
}

func TestVerifyAcceptsThePublishedExamples(t *testing.T) {
	t.Parallel()
	for p, e := range published() {
		now := time.Unix(e.at, 0)
		for _, secrets := range [][2]string{{e.secret, ""}, {"another secret of 16", e.secret}} {
			require.NoError(t, hooks.Verify(p, secrets, e.headers, []byte(e.body), now), p)
		}
		if p != hooks.GitHub { // it signs no time
			for _, off := range []time.Duration{hooks.Tolerance, -hooks.Tolerance} {
				require.NoError(t, hooks.Verify(p, [2]string{e.secret}, e.headers, []byte(e.body), now.Add(off)), p)
			}
			require.ErrorContains(t, hooks.Verify(p, [2]string{e.secret}, e.headers, []byte(e.body), now.Add(hooks.Tolerance+time.Second)), "old", p)
			require.ErrorContains(t, hooks.Verify(p, [2]string{e.secret}, e.headers, []byte(e.body), now.Add(-hooks.Tolerance-time.Second)), "clocks", p)
		}
		for name, secrets := range map[string][2]string{"none": {}, "other": {"another secret of 16", "and one more of 16"}} {
			require.ErrorContains(t, hooks.Verify(p, secrets, e.headers, []byte(e.body), now), "another secret", "%s %s", p, name)
		}
		for i := range len(e.body) {
			changed := []byte(e.body)
			changed[i] ^= 1
			require.Error(t, hooks.Verify(p, [2]string{e.secret}, e.headers, changed, now), "%s %d", p, i)
		}
		for name := range e.headers {
			less := maps.Clone(e.headers)
			delete(less, name)
			require.ErrorContains(t, hooks.Verify(p, [2]string{e.secret}, less, []byte(e.body), now), name+" is missing", p)
			less[name] = strings.Repeat("a", 5000)
			require.ErrorContains(t, hooks.Verify(p, [2]string{e.secret}, less, []byte(e.body), now), "too long", p)
		}
		require.ErrorContains(t, hooks.Verify("", [2]string{e.secret}, e.headers, []byte(e.body), now), "no such hook")
		require.Error(t, hooks.Verify(hooks.None, [2]string{e.secret}, e.headers, []byte(e.body), now))
	}
}

func TestVerifyRefusesHostileHeaders(t *testing.T) {
	t.Parallel()
	right, zero := published(), strings.Repeat("0", 64)
	for _, tc := range []struct {
		p                    hooks.Provider
		name, value, message string
	}{
		{hooks.GitHub, "x-hub-signature-256", "sha1=" + zero, "sha256="},
		{hooks.GitHub, "x-hub-signature-256", zero, "sha256="},
		{hooks.GitHub, "x-hub-signature-256", "sha256=", "64 hex"},
		{hooks.GitHub, "x-hub-signature-256", "sha256=" + zero[1:], "64 hex"},
		{hooks.GitHub, "x-hub-signature-256", "sha256=" + zero + ", sha256=" + zero, "64 hex"},
		{hooks.GitHub, "x-hub-signature-256", "sha256=zz" + zero[2:], "64 hex"},
		{hooks.Stripe, "stripe-signature", "t=1492774577", "no signature"},
		{hooks.Stripe, "stripe-signature", "v1=" + zero, "not a number"},
		{hooks.Stripe, "stripe-signature", "t=1492774577,v0=" + zero, "no signature"},
		{hooks.Stripe, "stripe-signature", "t=1492774577,t=1492774577,v1=" + zero, "two times"},
		{hooks.Stripe, "stripe-signature", "t=-1,v1=" + zero, "not a number"},
		{hooks.Stripe, "stripe-signature", "t=1492774577.5,v1=" + zero, "not a number"},
		{hooks.Stripe, "stripe-signature", "t=9999999999999999,v1=" + zero, "not a number"},
		{hooks.Stripe, "stripe-signature", "t=999999999999,v1=" + zero, "clocks"},
		{hooks.Stripe, "stripe-signature", "t=0,v1=" + zero, "old"},
		{hooks.Stripe, "stripe-signature", "t=1492774577" + strings.Repeat(",v1="+zero, hooks.MaxSignatures+1), "more than 8"},
		{hooks.Stripe, "stripe-signature", ",,,===,,", "no signature"},
		{hooks.Slack, "x-slack-signature", "v1=" + zero, "v0="},
		{hooks.Slack, "x-slack-request-timestamp", "1531420618\n", "not a number"},
		{hooks.Slack, "x-slack-request-timestamp", "0x5b47", "not a number"},
		{hooks.Standard, "webhook-signature", "v1a," + zero, "no signature"},
		{hooks.Standard, "webhook-signature", "v1,!!", "base64"},
		{hooks.Standard, "webhook-signature", "v1,AAAA", "base64"},
		{hooks.Standard, "webhook-signature", "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", "no signature"},
		{hooks.Standard, "webhook-timestamp", "", "missing"},
		{hooks.Standard, "webhook-id", "msg_other", "another secret"},
	} {
		e := right[tc.p]
		h := maps.Clone(e.headers)
		h[tc.name] = tc.value
		err := hooks.Verify(tc.p, [2]string{e.secret, e.secret}, h, []byte(e.body), time.Unix(e.at, 0))
		require.ErrorContains(t, err, tc.message, "%s %s", tc.p, tc.value)
		require.ErrorAs(t, err, new(hooks.RejectionError))
	}
}

// Of several signatures one suffices, wherever it stands.
func TestVerifyTakesOneOfSeveralSignatures(t *testing.T) {
	t.Parallel()
	e := published()[hooks.Standard]
	h := maps.Clone(e.headers)
	h["webhook-signature"] = "v1a,xx v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= " + h["webhook-signature"]
	require.NoError(t, hooks.Verify(hooks.Standard, [2]string{e.secret}, h, []byte(e.body), time.Unix(e.at, 0)))
}

func TestSignMakesWhatVerifyAccepts(t *testing.T) {
	t.Parallel()
	now := time.Unix(1700000000, 0)
	for _, p := range hooks.Providers() {
		if !p.Signs() {
			assert.Equal(t, hooks.Headers{"idempotency-key": "1"}, hooks.Sign(p, "", "1", nil, now))
			continue
		}
		secret := published()[p].secret
		h := hooks.Sign(p, secret, "id-1", []byte("{}"), now)
		require.NoError(t, hooks.Verify(p, [2]string{secret}, h, []byte("{}"), now), p)
		require.Error(t, hooks.Verify(p, [2]string{secret}, h, []byte("{ }"), now), p)
	}
}

func TestCheckSecret(t *testing.T) {
	t.Parallel()
	for _, p := range hooks.Providers() {
		if p.Signs() {
			require.NoError(t, hooks.CheckSecret(p, published()[p].secret), p)
			assert.True(t, fault.Has(hooks.CheckSecret(p, ""), fault.RequiredField))
			assert.ErrorContains(t, hooks.CheckSecret(p, strings.Repeat("a", 257)), "limit")
			assert.ErrorContains(t, hooks.CheckSecret(p, "a secret\nof two lines"), "printable")
		}
	}
	require.NoError(t, hooks.CheckSecret(hooks.None, ""))
	require.ErrorContains(t, hooks.CheckSecret(hooks.None, "something"), "no secret")
	require.ErrorContains(t, hooks.CheckSecret(hooks.GitHub, "short"), "too short")
	require.ErrorContains(t, hooks.CheckSecret(hooks.Standard, "whsec_short"), "base64")
	require.ErrorContains(t, hooks.CheckSecret(hooks.Standard, "whsec_AAAA"), "too short")
	require.ErrorContains(t, hooks.CheckSecret(hooks.Standard, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), "must begin with whsec_")
}

func FuzzVerify(f *testing.F) {
	for p, e := range published() {
		for name, value := range e.headers {
			f.Add(string(p), name, value, e.body, e.at)
		}
	}
	f.Fuzz(func(t *testing.T, p, name, value, body string, at int64) {
		e := published()[hooks.Provider(p)]
		h := maps.Clone(e.headers)
		if h == nil {
			h = hooks.Headers{}
		}
		h[name] = value
		err := hooks.Verify(hooks.Provider(p), [2]string{"a secret that nobody has signed with", ""}, h, []byte(body), time.Unix(at%(1<<40), 0))
		if err == nil {
			t.Fatal("a signature of another secret was accepted")
		}
	})
}
