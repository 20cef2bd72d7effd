package secrets_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/classify/secrets"
)

// secretCase is a text with exactly one secret.
type secretCase struct{ rule, text, secret string }

func secretCases() []secretCase {
	const (
		github = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
		token  = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
		orch   = "orch_0123456789abcdefghijABCDEFGHIJ0123456789abc"
		pem    = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEpAIBAAKCAQEA7+/=\nabc=\n-----END RSA PRIVATE KEY-----"
		cut    = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n"
	)
	return []secretCase{
		{"private_key", "x\n" + pem + "\ny", pem},
		{"private_key", cut, cut},
		{"aws_access_token", "key AKIAQYLPMN5HFIQR7XYA.", "AKIAQYLPMN5HFIQR7XYA"},
		{"aws_access_token", "a\nAKIAQYLPMN5HFIQR7XYA\n", "AKIAQYLPMN5HFIQR7XYA"},
		{"github_token", "\tghp_0123456789abcdefghijklmnopqrstuvwxyz", github},
		{"github_token", "https://x/" + strings.Replace(github, "ghp", "ghs", 1), strings.Replace(github, "ghp", "ghs", 1)},
		{"github_token", "github_pat_11ABCDEFG0123456789_abcdefghij", "github_pat_11ABCDEFG0123456789_abcdefghij"},
		{"api_key", "use sk-proj-abcDEF0123456789abcDEF", "sk-proj-abcDEF0123456789abcDEF"},
		{"api_key", "(sk-ant-api03-abcdefghijklmnop_-9)", "sk-ant-api03-abcdefghijklmnop_-9"},
		{"jwt", "s: " + token + ";", token},
		{"orch_token", "use " + orch, orch},
		{"orch_token", `{"operator":"` + orch + `"}`, orch}, // auth.json of a node
		{"url_password", "postgres://app:hunter2@db:5432/x", "hunter2"},
		{"url_password", "git clone https://bot:s3cr3t-pw@git.example.org/x.git", "s3cr3t-pw"},
		{"url_password", "redis://:p4ss@10.0.0.1", "p4ss"},
		{"url_password", "DSN=app:hunter2@tcp(db:3306)/x", "hunter2"},
		{"url_password", "app:s3cr3t-pw@unix(/run/db.sock)/x", "s3cr3t-pw"},
		{"assignment", `password = "hunter2"`, "hunter2"},
		{"assignment", `password = "supersecret"`, "supersecret"},
		{"assignment", `PASSWORD='hunter2'`, "hunter2"},
		{"assignment", `db_password: "correct-horse"`, "correct-horse"},
		{"assignment", `{"password":"hunter2"}`, "hunter2"},
		{"assignment", `{"clientSecret": "Xy12Zk99Qq"}`, "Xy12Zk99Qq"},
		{"assignment", `"api_key": "abcd1234efgh"`, "abcd1234efgh"},
		{"assignment", `apiKey: 'abcd1234efgh',`, "abcd1234efgh"},
		{"assignment", `x-api-key: "abcd1234efgh"`, "abcd1234efgh"},
		{"assignment", `const token = "abcd1234efgh"`, "abcd1234efgh"},
		{"assignment", `env["AUTH_TOKEN"] = "abcd1234efgh"`, "abcd1234efgh"},
		{"assignment", `SECRET_KEY := "abcd/1234+efgh="`, "abcd/1234+efgh="},
		{"assignment", `:token => "abcd1234efgh"`, "abcd1234efgh"},
		{"assignment", "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENGbPxRfiCYzEXAMPLKEY\nx", "wJalrXUtnFEMIK7MDENGbPxRfiCYzEXAMPLKEY"},
		{"assignment", "export DB_PASSWORD=hunter2", "hunter2"},
		{"assignment", "mysql --password=hunter2 db", "hunter2"},
		{"assignment", "Server=x;Password=hunter2;Port=1", "hunter2"},
		{"assignment", "secret: 0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef"},
		{"assignment", `id:secret="Xy12Zk99Qq77Lm"`, "Xy12Zk99Qq77Lm"},
		{"assignment", `password: "*uint1677"`, "*uint1677"},
		{"assignment", "password = \"ab\\\"cdefgh\"", `ab\"cdefgh`},
	}
}

func redact(data []byte) ([]byte, bool) { return secrets.Redact(data, secrets.Find) }

// encodings are the forms in which a text reaches the scanner.
func encodings() map[string]func(t *testing.T, s string) string {
	asJSON := func(t *testing.T, s string) string {
		t.Helper()
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		require.NoError(t, enc.Encode(s))
		return strings.TrimSuffix(b.String(), "\n")
	}
	return map[string]func(t *testing.T, s string) string{
		"plain": func(_ *testing.T, s string) string { return s },
		"json":  asJSON,
		"json in json": func(t *testing.T, s string) string {
			t.Helper()
			return `{"args":` + asJSON(t, asJSON(t, s)) + `}`
		},
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	for form, encode := range encodings() {
		for _, tc := range secretCases() {
			t.Run(form+"/"+tc.rule, func(t *testing.T) {
				t.Parallel()
				text := encode(t, tc.text)
				secret := strings.TrimPrefix(strings.TrimSuffix(strings.TrimSuffix(encode(t, tc.secret), "}"), `"`), `"`)
				secret = strings.TrimPrefix(secret, `{"args":"`)
				secret = strings.TrimSuffix(strings.TrimPrefix(secret, `\"`), `\"`)
				found := secrets.Find([]byte(text))
				require.Len(t, found, 1, text)
				assert.Equal(t, tc.rule, found[0].Rule)
				assert.Equal(t, secret, text[found[0].Offset:found[0].Offset+found[0].Length])
				redacted, changed := redact([]byte(text))
				assert.True(t, changed)
				assert.Equal(t, strings.Replace(text, secret, "[REDACTED:"+tc.rule+"]", 1), string(redacted))
				if form != "plain" {
					assert.True(t, json.Valid(redacted), string(redacted))
				}
				_, again := redact(redacted)
				assert.False(t, again, string(redacted))
			})
		}
	}
}

// A preceding character hides a token only if the form of the token is not distinctive.
func TestGluedTokens(t *testing.T) {
	t.Parallel()
	noise := "4paQ9o0F4w08wzaiZk7p3fjE0ZH6lIN1s14i"
	for _, token := range []string{
		"gh" + "p_" + noise, "github" + "_pat_11K0E1ft2jGRZRTpvwo64u_J6s3TQPcDdYF404", "gl" + "pat-04iorEg7OFIPbO6NZZEG", "np" + "m_" + noise,
		"xo" + "xb-728543327697-658450699199-tbrrne1eGciROHoA65CbwrAi", "or" + "ch_2yyB2SsnGd9wh1JkHmH1VeDoCZWsKrenMcd45QWzXeI",
		"sk" + "-ant-api03-yWfwZC6jnTs814QadQ9f7lUCiCFKM6vRMlHYip1cC98kcyNa",
	} {
		for _, before := range []string{"a.txt", "a.txt_", "x", "K1", "a/"} {
			found := secrets.Find([]byte(before + token))
			require.Len(t, found, 1, before+token)
			assert.Equal(t, len(before), found[0].Offset, before+token)
		}
	}
	for _, token := range []string{
		"AK" + "IAUZLIJ2XIOJ4UH72R", "sk" + "_live_RowPcH4cQxCkzusqgTcvIwqk", "AI" + "zaL4rx90AeUJiZ0fx5XHm61VOEJOs3ZcJXWl9",
		"sk" + "-proj-9FRYCNRyITI7mr2UFayklyE8N2oSvmTq93zH5XtS2ePw5o9D",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIyMDNQbVdkRFhTMmNVanZtc0VXbSJ9.DKUKpjklHoMWUz2Em8mbLmlIuC5mB16uwMv5sYooiGM",
	} {
		found := secrets.Find([]byte("a.txt_" + token))
		require.Len(t, found, 1, token)
		assert.Equal(t, len("a.txt_"), found[0].Offset, token)
	}
	for _, name := range []string{
		"pytorch_0123456789abcdef0123456789abcdef01234567", "task_test_environment", "mytask-ant-api03", "ask_live_updates",
	} {
		assert.Empty(t, secrets.Find([]byte(name)), name)
	}
}

func nearMisses() []string {
	return []string{
		`token = os.Getenv("X")`, `password = ""`, `secret = ${VAR}`, `token: ${{ secrets.GITHUB_TOKEN }}`,
		`password := "${DB_PASSWORD}"`, `password = "{{ .Password }}"`, `password: <your password>`, `api_key = "your-api-key-1"`,
		`apiKey = process.env.API_KEY_1`, `token = "$TOKEN_1"`, `PASSWORD=$(cat /run/secrets/pw1)`, `PASSWORD=$PW1234567`,
		`const tokenizer = "bert-base-uncased-1"`, `secretName: "my-app-tls-01"`, `token_type: "bearer1234"`, `tokens = "12345678abc"`,
		`password = "password"`, `{"password":"string"}`, `{"type":"password","label":"Enter your password"}`,
		`password: "Enter at least 8 characters"`, `<input name="password" type="password">`, `{"token":1234567890123456}`,
		`{"token":1.5e10,"secret":null,"password":true}`, `token := lexer.next1234567890`, `secret = cfg.Secret12345678`,
		`password = getPassword12345()`, `token=token1`, `connect(password=password1)`, `field = "user_password"`, `password: "user_password"`,
		`token: "csrfToken"`, `if token == "abcdefgh1" {`, `// the password is checked below: see login`, `max_tokens: 4096`,
		`"total_tokens": 123456789`, `token: identifier`, `task-0123456789abcdefghijklmnop`, `disk-0123456789abcdefghijk`,
		`sk-circle-fade-dot-animation-one`, `AKIA`, `AKIAIOSFODNN7EXAMPLE`, `AKIAQYLPMN5HFIQR7XY`, `AKIAQYLPMN5HFIQR7XYAX`, `xAKIAQYLPMN5HFIQR7XYA`,
		`ghp_short`, `eyJhbGciOiJIUzI1NiJ9`, `-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----`,
		`-----BEGIN CERTIFICATE-----`, `https://example.com:8080/a@b`, `https://user@example.com/`, `http://localhost:3000/x`,
		`app@tcp(db:3306)/x`, `app:${PASS}@tcp(db:3306)/x`, `https://user:${PASS}@host`, `https://user:password@host`, `postgres://u:[REDACTED:url_password]@h`, `secret://database`,
		`password = "secret://database"`, `orch_events`, `orch_0123456789`, `0123456789abcdef0123456789abcdef01234567`,
		`password = "[REDACTED:assignment]"`, `PASSWORD=********`, `password: "xxxxxxxx"`, `func token(s string) string {`,
		`arn:aws:secretsmanager:us-east-1:123456789012:secret:SecretName-6RandomCharacters`, "see `urn:ietf:params:oauth:token-type:id_token`, `urn:ietf:params:aws:token-type:aws4_request`",
		`c.googlefirebaseappcheckv1betadebugtoken = googlefirebaseappcheckv1betadebugtoken`, `"PGSSLPASSWORD": "sslpassword"`, "\tPassword       *uint16\n",
		"a Secret Manager secret: `projects/*/secrets/*/versions/*`", `Culture=neutral, PublicKeyToken=31bf3856ad364e35`, `$Pass = ConvertTo-SecureString -String $x`,
		`token => "bearer"`, `secret = "short"`, "password:\n  min: 8\n", `"passwordMinLength": 12`,
	}
}

func TestNearMisses(t *testing.T) {
	t.Parallel()
	for form, encode := range encodings() {
		for _, text := range nearMisses() {
			data := []byte(encode(t, text))
			out, changed := redact(data)
			assert.False(t, changed, "%s: %s → %s", form, text, out)
			assert.Equal(t, data, out)
		}
	}
}

func TestRedactKeepsJSONValid(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`["password=",123456789012,"x"]`,
		`{"a":"password=","bcdefghijk":"lmnopqrst"}`,
		`["password=\\", 1234567890 ,"x"]`,
		`{"a":"token = \\\\\"","b":"abcd1234efgh"}`,
		`["password=","abcdefghijk1"]`,
	} {
		require.True(t, json.Valid([]byte(text)))
		out, _ := redact([]byte(text))
		assert.True(t, json.Valid(out), "%s → %s", text, out)
	}
}

func TestRedactManySecrets(t *testing.T) {
	t.Parallel()
	out, changed := redact([]byte("a AKIAQYLPMN5HFIQR7XYA b password='hunter2' c postgres://u:p@h d"))
	assert.True(t, changed)
	assert.Equal(t, "a [REDACTED:aws_access_token] b password='[REDACTED:assignment]' c postgres://u:[REDACTED:url_password]@h d", string(out))
}

func FuzzRedact(f *testing.F) {
	for _, tc := range secretCases() {
		f.Add([]byte(tc.text))
		encoded, err := json.Marshal(map[string]string{"k": tc.text})
		require.NoError(f, err)
		f.Add(encoded)
	}
	for _, text := range nearMisses() {
		f.Add([]byte(text))
	}
	f.Add([]byte(`["password=\\", 1234567890 ,"x"]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		after := 0
		for _, found := range secrets.Find(data) {
			require.GreaterOrEqual(t, found.Offset, after)
			require.Positive(t, found.Length)
			after = found.Offset + found.Length
			require.LessOrEqual(t, after, len(data))
		}
		out, changed := redact(data)
		require.Equal(t, after > 0, changed)
		if json.Valid(data) {
			require.True(t, json.Valid(out), "%s → %s", data, out)
		}
		// Whatever is redacted as text is redacted inside a JSON string, too.
		if encoded, err := json.Marshal(string(data)); err == nil && json.Valid(encoded) {
			out, _ := redact(encoded)
			require.True(t, json.Valid(out), "%s → %s", encoded, out)
		}
	})
}

func BenchmarkFind(b *testing.B) {
	text, err := os.ReadFile("assign.go")
	require.NoError(b, err)
	for name, data := range map[string][]byte{
		"go source":   bytes.Repeat(text, 16),
		"prose":       bytes.Repeat([]byte("The quick brown fox jumps over the lazy dog and then looks back at the hounds. "), 1024),
		"all keyword": bytes.Repeat([]byte("token password "), 4096),
		"base64":      bytes.Repeat([]byte("QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2"), 1024),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				secrets.Find(data)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(data))*1024, "ns/KB")
		})
	}
}

// Values of PWD and OLDPWD are folders and not secrets, in the output of env and export -p and in JSON; other names are
// treated as usual.
func TestFoldersOfShells(t *testing.T) {
	t.Parallel()
	const folder = "/srv/repo/Working/TASK_01JD8Y3K9Q7W5ZVX2N4M6P8R0T/workspace"
	for _, text := range []string{
		"HOME=/root\nPWD=" + folder + "\nOLDPWD=/srv/x9Kq2LmZ7Rt4Vb8N\n", `declare -x PWD="` + folder + `"`, `{"PWD":"` + folder + `","n":1}`,
	} {
		out, found := redact([]byte(text))
		assert.False(t, found, string(out))
	}
	for _, text := range []string{
		"PWD=x9Kq2LmZ7Rt4Vb8N\n", "DB_PWD=/srv/x9Kq2LmZ7Rt4Vb8N\n", "pwd=/srv/x9Kq2LmZ7Rt4Vb8N\n", "PWD=/srv PASSWORD=x9Kq2LmZ7Rt4Vb8N\n",
	} {
		out, found := redact([]byte(text))
		assert.True(t, found, text)
		assert.NotContains(t, string(out), "x9Kq2LmZ7Rt4Vb8N")
	}
}
