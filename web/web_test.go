package web_test

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/web"
)

// maxPage is the largest allowed size of the page with all its files, compressed, in bytes.
const maxPage = 120 << 10

var address = regexp.MustCompile(`(?:src|href)="([^"]*)"`)

// index.html refers to files of the page only, and nothing of it is inline: its content security policy allows nothing else.
func TestIndexRefersToFilesThatExist(t *testing.T) {
	t.Parallel()
	index, err := fs.ReadFile(web.Files(), web.Index)
	require.NoError(t, err)
	found := address.FindAllSubmatch(index, -1)
	require.NotEmpty(t, found)
	for _, m := range found {
		name, ok := strings.CutPrefix(string(m[1]), web.Base)
		require.True(t, ok, "%s is outside of the page", m[1])
		_, err := fs.Stat(web.Files(), name)
		require.NoError(t, err)
	}
	assert.NotRegexp(t, `<style|<script[^>]*>[^<]|\sstyle=|\son[a-z]+=`, string(index))
}

func TestThePageIsSmall(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	err := fs.WalkDir(web.Files(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(web.Files(), name)
		if err != nil {
			return err
		}
		_, err = zip.Write(data)
		return err
	})
	require.NoError(t, err)
	require.NoError(t, zip.Close())
	assert.LessOrEqual(t, packed.Len(), maxPage)
	t.Logf("%d bytes compressed", packed.Len())
}
