// Package policy decides whether a tool call may run. A decision depends on the contract of the tool (tools.Spec), the
// call and the configuration. The caller passes resolved paths: it has followed symbolic links and confined the paths
// to the root.
//
// It is a policy, not a sandbox: it prevents mistakes of honest agents and asks people in doubt. Only the operating
// system can confine what a command really does.
package policy

import (
	"maps"
	"path"
	"path/filepath"
	"regexp"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// Config configures a Policy.
type Config struct {
	// Root is the real absolute path of the directory that tools are confined to. Required.
	Root string
	// Working is the directory of the workspaces. Default: Root/Working.
	Working string
	// DataDir is the data directory of the node; "" if it has none on this machine.
	DataDir string
	// ReadOnly refuses every call whose effect is not read.
	ReadOnly bool
	// Protected are glob patterns (with **) of paths below Root that must not be written or deleted outside the task's
	// own workspace. A pattern without a slash matches the last element at any depth. Default, when nil: go.mod, and
	// the names of makefiles.
	Protected []string
	// AllowSecrets are regular expressions (RE2). A finding with a matching text, and a file with a matching name, is
	// not treated as secret, such as `^\.env\.example$`.
	AllowSecrets []string
	// Branches are patterns of protected branches. Default, when nil: main, master, release/*.
	Branches []string
	// Limits bounds the calls of a class per task and minute (S0-113). An absent class has its default: 10 external
	// calls, 50 database queries, and no limit for reads and writes, because plans loop over thousands of files. 0 or
	// less means no limit.
	Limits map[tools.Rate]int
	// Rules is the policy file; nil for none.
	Rules *Rules
}

// Policy decides about tool calls. It is immutable and safe for concurrent use.
type Policy struct {
	root, working, data string
	readOnly            bool
	protected           []string
	allow               []*regexp.Regexp
	branches            []string
	limits              map[tools.Rate]int
	rules               *Rules
}

// New returns the policy of cfg, or VALIDATION_ERROR for an invalid field.
func New(cfg Config) (*Policy, error) {
	if cfg.Working == "" {
		cfg.Working = filepath.Join(cfg.Root, "Working")
	}
	if cfg.Protected == nil {
		cfg.Protected = []string{"go.mod", "Makefile", "makefile", "GNUmakefile"}
	}
	if cfg.Branches == nil {
		cfg.Branches = []string{"main", "master", "release/*"}
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Rules != nil {
		if err := cfg.Rules.checkReach(filepath.Clean(cfg.Root)); err != nil {
			return nil, err
		}
	}
	p := &Policy{
		root: filepath.Clean(cfg.Root), working: filepath.Clean(cfg.Working),
		readOnly: cfg.ReadOnly, protected: cfg.Protected,
		branches: cfg.Branches, limits: limitsOf(cfg.Limits), rules: cfg.Rules,
	}
	if cfg.DataDir != "" {
		p.data = filepath.Clean(cfg.DataDir)
	}
	for _, expr := range cfg.AllowSecrets {
		re, err := regexp.Compile(expr)
		if err != nil {
			return nil, fault.New(fault.ValidationError, "%q is not a regular expression: %w", expr, err).WithField("allow_secrets")
		}
		p.allow = append(p.allow, re)
	}
	return p, nil
}

// Rules returns the policy file; nil for none.
func (p *Policy) Rules() *Rules { return p.rules }

// WithRules returns the policy with another policy file, or VALIDATION_ERROR if its rules cannot be applied.
func (p *Policy) WithRules(r *Rules) (*Policy, error) {
	if r != nil {
		if err := r.checkReach(p.root); err != nil {
			return nil, err
		}
	}
	other := *p
	other.rules = r
	return &other, nil
}

// limitsOf returns the configured limits with the defaults filled in. A class without a limit is absent.
func limitsOf(configured map[tools.Rate]int) map[tools.Rate]int {
	limits := map[tools.Rate]int{tools.External: 10, tools.Database: 50}
	maps.Copy(limits, configured)
	maps.DeleteFunc(limits, func(_ tools.Rate, n int) bool { return n <= 0 })
	return limits
}

// Limit returns the limit of calls of a class per task and minute; 0 for none.
func (p *Policy) Limit(class tools.Rate) int { return p.limits[class] }

func (c Config) validate() error {
	for _, dir := range []struct{ field, path string }{{"root", c.Root}, {"working", c.Working}, {"data_dir", c.DataDir}} {
		if !filepath.IsAbs(dir.path) && (dir.field != "data_dir" || dir.path != "") {
			return fault.New(fault.ValidationError, "%q is not an absolute path", dir.path).WithField(dir.field)
		}
	}
	for _, pattern := range c.Branches {
		if _, err := path.Match(pattern, ""); err != nil {
			return fault.New(fault.ValidationError, "%q is not a pattern of branches", pattern).WithField("branches")
		}
	}
	for _, pattern := range c.Protected {
		if !doublestar.ValidatePattern(pattern) {
			return fault.New(fault.ValidationError, "%q is not a glob pattern", pattern).WithField("protected")
		}
	}
	return nil
}
