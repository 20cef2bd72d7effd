package archtest_test

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/test/archtest"
)

func TestEveryLinkResolves(t *testing.T) {
	t.Parallel()
	findings, err := archtest.CheckLinks(os.DirFS("../.."))
	require.NoError(t, err)
	for _, finding := range findings {
		t.Error(finding)
	}
}

func TestCheckLinks(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		page string
		want []string
	}{
		"file":                 {"[a](docs/a.md)", nil},
		"folder":               {"[a](docs) [b](docs/)", nil},
		"other host":           {"[a](https://x.test/none.md) [b](mailto:a@x.test) [c](//x.test/d)", nil},
		"image and title":      {`![a](docs/a.png "none.md") [b](docs/a.md 'b')`, nil},
		"escaped":              {"[a](docs/a%20b.txt)", nil},
		"brackets":             {"[a](docs/f(1).txt)", nil},
		"reference":            {"[a]: docs/a.md\n[b]: none.md", []string{"README.md:2: none.md: there is no such file"}},
		"no such file":         {"\nx [a](docs/none.md) y", []string{"README.md:2: docs/none.md: there is no such file"}},
		"two in a line":        {"[a](one) [b](two)", []string{"README.md:1: one: there is no such file", "README.md:1: two: there is no such file"}},
		"nested":               {"[![a](none.png)](docs/a.md)", []string{"README.md:1: none.png: there is no such file"}},
		"outside":              {"[a](../a.md)", []string{"README.md:1: ../a.md: leads out of the repository"}},
		"absolute":             {"[a](/docs/a.md)", []string{"README.md:1: /docs/a.md: leads out of the repository"}},
		"no URL":               {"[a](a%zz)", []string{"README.md:1: a%zz: is no URL"}},
		"code":                 {"`[a](none)` and ``[a`](none)``\n```md\n[a](none)\n# H\n```\n~~~\n[a](none)\n```\n[a](none)\n~~~", nil},
		"anchor":               {"[a](docs/a.md#first-part) [b](#top)\n# Top", nil},
		"anchor of code":       {"[a](#top)\n```\n# Top\n```", []string{"README.md:1: #top: no heading has this anchor"}},
		"anchor of a file":     {"[a](docs/a%20b.txt#L1)", nil},
		"no such anchor":       {"[a](docs/a.md#second-part)", []string{"README.md:1: docs/a.md#second-part: no heading has this anchor"}},
		"anchor again":         {"[a](#x) [b](#x-1) [c](#x-2)\n# X\n## X\n### X", nil},
		"anchor of signs":      {"[a](#firebaseread-a--b_c-é)\n## `firebase.read`: A / B_c, É! ##", nil},
		"anchor of a link":     {"[a](#see-there)\n## See [there](docs/a.md)", nil},
		"explicit anchor":      {"[a](#here) <a id=\"here\"></a>", nil},
		"capitals are letters": {"[a](#Top)\n# Top", []string{"README.md:1: #Top: no heading has this anchor"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := archtest.CheckLinks(fstest.MapFS{
				"README.md":          {Data: []byte(test.page)},
				"docs/README.md":     {Data: []byte("[a](a.md)")},
				"docs/a.md":          {Data: []byte("# First part\n")},
				"docs/a.png":         {},
				"docs/a b.txt":       {},
				"docs/f(1).txt":      {},
				"x/testdata/bad.md":  {Data: []byte("[a](none)")},
				"docs/adr/0001-a.md": {},
			})
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
		})
	}
}

func TestCheckLinksDemandsAPlaceOnTheStartPage(t *testing.T) {
	t.Parallel()
	got, err := archtest.CheckLinks(fstest.MapFS{
		"docs/README.md":   {Data: []byte("[a](how-to/a.md)")},
		"docs/how-to/a.md": {Data: []byte("[b](b.md)")},
		"docs/how-to/b.md": {},
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"docs/how-to/b.md: docs/README.md has no link to it"}, got)
}
