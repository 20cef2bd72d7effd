package registry

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// PathVariable is the environment variable with additional directories of definitions, separated as in PATH.
const PathVariable = "ORCH_MCP_PATH"

// Directories returns the directories with definitions, in order of precedence (S1-002, S1-004): .orch/mcp in dir, .orch/mcp in
// home, and the directories of ORCH_MCP_PATH. It returns ErrInvalidPath if ORCH_MCP_PATH is invalid.
func Directories(dir, home string, getenv func(string) string) ([]string, error) {
	dirs := []string{filepath.Join(dir, ".orch", "mcp"), filepath.Join(home, ".orch", "mcp")}
	list := getenv(PathVariable)
	if list == "" {
		return unique(dirs), nil
	}
	for _, path := range filepath.SplitList(list) {
		if path == "" || strings.ContainsRune(path, 0) {
			return nil, invalidPath(list, "has an empty element, or a zero byte")
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return nil, invalidPath(list, path+" is not a directory")
		}
		dirs = append(dirs, filepath.Clean(path))
	}
	return unique(dirs), nil
}

// unique removes duplicates. They are normal: the project may be in the home directory itself.
func unique(dirs []string) []string {
	var kept []string
	for _, dir := range dirs {
		if !slices.Contains(kept, dir) {
			kept = append(kept, dir)
		}
	}
	return kept
}

// scanResult contains the definitions in all directories.
type scanResult struct {
	// servers are the effective definitions by name.
	servers map[string]definition
	// broken are files that could not be loaded.
	broken map[string]bool
	// dirs counts the existing directories.
	dirs int
}

// scan reads the directories. It logs and skips files that cannot be loaded (S1-006), and definitions that are overridden by an
// earlier one (S1-005).
func (c *checker) scan(dirs []string, log *slog.Logger) scanResult {
	all := scanResult{servers: map[string]definition{}, broken: map[string]bool{}}
	for _, dir := range dirs {
		files, err := filesOf(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			log.Warn("mcp_dir_unreadable", slog.String("dir", dir), slog.Any("error", err))
			continue
		}
		all.dirs++
		for _, file := range files {
			c.scanFile(file, &all, log)
		}
	}
	return all
}

// filesOf lists the files with definitions in a directory: *.json, sorted, without hidden files.
func filesOf(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && filepath.Ext(e.Name()) == ".json" && !strings.HasPrefix(e.Name(), ".") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, nil
}

func (c *checker) scanFile(file string, all *scanResult, log *slog.Logger) {
	d, err := readDocument(file)
	if err != nil {
		if info, statErr := os.Stat(file); statErr == nil && info.IsDir() {
			return // a link to a directory
		}
		all.broken[file] = true
		log.Error("mcp_config_invalid", slog.String("file", file), slog.String("error", fault.From(err).Error()))
		return
	}
	servers, problems := c.load(d)
	for _, p := range problems {
		all.broken[file] = true
		log.Error("mcp_config_invalid", slog.String("file", file), slog.Int("line", p.Line), slog.Int("column", p.Column),
			slog.String("path", p.Path), slog.String("error", p.Message))
	}
	for _, s := range servers {
		if winner, ok := all.servers[s.Name]; ok {
			log.Warn("mcp_config_overridden", slog.String("server", s.Name), slog.String("used", winner.source), slog.String("ignored", file))
			continue
		}
		all.servers[s.Name] = s
	}
}
