package secrets_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/classify/secrets"
)

// userTime returns the CPU time of do, which does not depend on the load of the machine.
func userTime(t *testing.T, do func()) time.Duration {
	t.Helper()
	used := func() time.Duration {
		var u syscall.Rusage
		require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano())
	}
	before := used()
	do()
	return used() - before
}

// linear checks that four times the text takes about four times as long, and that a MiB takes at most seconds; on an
// idle machine it takes half a second.
func linear(t *testing.T, unit string, size int, do func([]byte)) {
	t.Helper()
	const noise, most = 250 * time.Millisecond, 3 * time.Second * smaller
	size /= smaller
	text := bytes.Repeat([]byte(unit), 4*size/len(unit)+1)
	took := userTime(t, func() { do(text[:4*size]) })
	assert.Less(t, took*time.Duration(1<<20/(4*size)), most, "%.40q repeated", unit)
	if took < noise {
		return
	}
	once := userTime(t, func() { do(text[:size]) })
	assert.LessOrEqual(t, took, 6*once+noise, "%.40q repeated", unit)
}

// hostile returns texts that repeat a keyword with an assignment, and before bytes that many rules accept.
func hostile(keyword string) []string {
	return []string{keyword + "=", keyword + "\n", keyword + `: "a1b2`, keyword + "=" + strings.Repeat("aB3-", 64)}
}

func find(text []byte) { secrets.Find(text) }

// No text makes a search slow, not even one that repeats the keyword of a rule. No other test runs in parallel.
//
//nolint:paralleltest // it measures processor time
func TestLinear(t *testing.T) {
	described, coded := secrets.Keywords()
	require.Greater(t, len(described), 300)
	for _, keyword := range described {
		for _, unit := range []string{keyword, keyword + "=", "." + keyword + strings.Repeat("x", 60), "a1B2a1B2a1B2" + keyword} {
			linear(t, unit, 16<<10, find)
		}
	}
	for _, keyword := range append(coded, "-----BEGIN PRIVATE KEY-----\n", "-----END PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY----- AAAA \n", "-eyJ", ".eyJaaaaaaaa") {
		linear(t, keyword, 256<<10, find)
		for _, unit := range hostile(keyword) {
			linear(t, unit, 64<<10, find)
		}
	}
}

// A keyword before a long run of bytes that its rule accepts.
//
//nolint:paralleltest // it measures processor time
func TestLinearRuns(t *testing.T) {
	described, coded := secrets.Keywords()
	for _, run := range []string{"A", "a1", "-", " ", `\`} {
		var text strings.Builder
		for _, keyword := range append(described, coded...) {
			text.WriteString("\n" + keyword + "=" + strings.Repeat(run, 2<<10))
		}
		for _, keyword := range coded {
			text.WriteString("\n" + keyword + "=" + strings.Repeat(run, 64<<10))
		}
		assert.Less(t, userTime(t, func() { find([]byte(text.String())) }), 30*time.Second, "%q", run)
	}
}

// All that searches for secrets is as fast as the search itself.
//
//nolint:paralleltest // it measures processor time
func TestLinearConsumers(t *testing.T) {
	consumers := map[string]func([]byte){
		"Redact": func(text []byte) { secrets.Redact(text, secrets.Find) },
		"Clean":  func(text []byte) { secrets.Clean(string(text)) },
		"URL":    func(text []byte) { secrets.URL(string(text)) },
		"JSON": func(text []byte) {
			encoded, err := json.Marshal([]string{string(text), "password=", "bcdefghijk1"})
			require.NoError(t, err)
			secrets.Redact(encoded, secrets.Find)
		},
	}
	for name, consume := range consumers {
		t.Run(name, func(t *testing.T) {
			for _, unit := range []string{
				"-----BEGIN PRIVATE KEY-----\n", "LS0tLS1CRUdJTi", "cookie=", "password='hunter2' ", `","password=",123456789012,"`, "nats://u:p@h,", "://", "@", ",", ":", `\`, `"`,
			} {
				linear(t, unit, 64<<10, consume)
			}
		})
	}
}

// pem returns a private key with a body of so many bytes.
func pem(size int) string {
	line := strings.Repeat("Ab3+", 16) + "\n"
	return "-----BEGIN PRIVATE KEY-----\n" + strings.Repeat(line, size/len(line)) + "-----END PRIVATE KEY-----\n"
}

// Private keys are found wholly up to 16 KiB, several in a row, and where the one before them has no end.
func TestLargePrivateKeys(t *testing.T) {
	t.Parallel()
	for form, encode := range encodings() {
		for name, tc := range map[string]struct {
			text string
			keys int
		}{
			"large":   {pem(16 << 10), 1},
			"row":     {pem(16<<10) + pem(3<<10) + "x\n" + pem(16<<10), 3},
			"cut":     {strings.TrimSuffix(pem(2<<10), "-----END PRIVATE KEY-----\n") + pem(3<<10), 2},
			"in vain": {strings.Repeat("-----BEGIN PRIVATE KEY-----\n", 100) + pem(16<<10), 1},
		} {
			text := []byte(encode(t, tc.text))
			assert.Len(t, secrets.Find(text), tc.keys, "%s: %s", form, name)
			out, _ := redact(text)
			assert.NotContains(t, string(out), "Ab3+", "%s: %s", form, name)
		}
	}
}

// Larger keys are hidden, too.
func TestHugePrivateKey(t *testing.T) {
	t.Parallel()
	out, _ := redact([]byte(pem(256 << 10)))
	assert.NotContains(t, string(out), "Ab3+Ab3+Ab3+")
}

// A secret after a few headers with placeholders is found.
func TestSecretBehindPlaceholders(t *testing.T) {
	t.Parallel()
	for _, keyword := range []string{"cookie: a=", "authorization: ", "Bearer "} {
		text := strings.Repeat(keyword+"changeme\n", 100) + keyword + "f8Zq2Lw9Xc4Vb7Nm1Kj6\n"
		assert.Len(t, secrets.Find([]byte(text)), 1, keyword)
	}
}

// A secret is found among any number of decoys: non-secret texts with the keyword of its rule in the same stretch.
func TestSecretAmongDecoys(t *testing.T) {
	t.Parallel()
	fill := strings.Repeat("x", 60)
	for name, tc := range map[string]struct{ decoy, secret string }{
		"terraform":  {".atlasv1.", " a1B2c3D4e5F6g7.atlasv1." + strings.Repeat("aB3-", 16)},
		"gitlab":     {"glpat-" + fill + ".", "glpat-f8Zq2Lw9Xc4Vb7Nm1Kj6"},
		"doppler":    {"dp.st." + fill + ".", "dp.st." + strings.Repeat("aB3d", 11)},
		"vault":      {"hvs." + fill + "-", "hvs.f8Zq2Lw9Xc4Vb7Nm1Kj6f8Zq"},
		"jwt":        {"eyJ" + fill + ".eyJ-", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"},
		"cookie":     {"cookie=a; ", "Cookie: id=f8Zq2Lw9Xc4Vb7Nm1Kj6"},
		"cookie two": {"cookie=a; ", "Cookie: cookie_id=f8Zq2Lw9Xc4Vb7Nm1Kj6"},
		"bearer":     {"bearer " + fill + "/", "bearer f8Zq2Lw9Xc4Vb7Nm1Kj6"},
		"openai":     {"sk-" + fill + "=", "sk-f8Zq2Lw9Xc4Vb7Nm1Kj6f8Zq"},
		"named":      {"algolia_key=" + fill + "!", "algolia_key=f8a2b9c4d7e1f8a2b9c4d7e1f8a2b9c4"},
		"azure":      {"Q~" + fill + "/", " aB38Q~f8Zq2Lw9Xc4Vb7Nm1Kj6pR5tY3uE0iOs"},
		"mailchimp":  {"-us1", " 0f1e2d3c4b5a69788796a5b4c3d2e1f0-us12"},
	} {
		require.Len(t, secrets.Find([]byte(tc.secret)), 1, name)
		for _, n := range []int{1, 4, 5, 6, 20, 200} {
			for _, after := range []int{0, 3} {
				text := strings.Repeat(tc.decoy, n) + tc.secret + " " + strings.Repeat(tc.decoy, after)
				found := secrets.Find([]byte(text))
				at := n * len(tc.decoy)
				assert.True(t, slices.ContainsFunc(found, func(f secrets.Finding) bool {
					return f.Offset < at+len(tc.secret) && f.Offset+f.Length >= at+len(tc.secret)
				}), "%s behind %d decoys: %v", name, n, found)
			}
		}
	}
}

// Two adjacent secrets of one kind are both found.
func TestSecretsInARow(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{
		"hooks.slack.com/services/" + strings.Repeat("aB3d", 11), "0f1e2d3c4b5a69788796a5b4c3d2e1f0-us12", "a1B2c3D4e5F6g7.atlasv1." + strings.Repeat("aB3-", 16),
		"123456789:AA" + strings.Repeat("aB3d", 8) + "e", "db.example.org:5432:app:me:hunter22", "aB38Q~f8Zq2Lw9Xc4Vb7Nm1Kj6pR5tY3uE0iOs",
		"discord.com/api/webhooks/123456789012345678/" + strings.Repeat("aB3d", 15),
	} {
		assert.Len(t, secrets.Find([]byte(secret+" "+secret+" "+secret)), 3, secret)
	}
}
