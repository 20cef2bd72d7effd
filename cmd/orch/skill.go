package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/skills"
)

// skillCommands print and install the skill for agents.
type skillCommands struct{ *env }

// commands implements family.
func (c *skillCommands) commands() []*cobra.Command { return []*cobra.Command{newSkill(c)} }

// skillOptions are the flags of `orch skill install`.
type skillOptions struct {
	client  string
	project bool
	dryRun  bool
}

// skillFolders are the folders of skills of the clients, below the home of a user or the root of a project.
func skillFolders() map[string]string {
	return map[string]string{"claude-code": ".claude/skills", "agents": ".agents/skills", "copilot": ".github/skills"}
}

func newSkill(c *skillCommands) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "skill",
		Short: "Print the skill that teaches agents to use orch, or install it",
		Long: `Print the agent skill of orch: a page that teaches a language model with a shell when and how to use this program.
"orch skill install" puts it where a client looks for skills.`,
		Example: "  orch skill\n  orch skill install --client claude-code",
		Args:    takes(),
		RunE:    func(*cobra.Command, []string) error { return c.showSkill() },
	}
	cmd.AddCommand(newSkillInstall(c))
	return cmd
}

func newSkillInstall(c *skillCommands) *cobra.Command {
	o := skillOptions{}
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Write the skill to the folder of a client",
		Long: `Write the skill to the folder in which a client looks for skills, of the user or, with --project, of the project:
claude-code (.claude/skills), copilot (.github/skills) or agents (.agents/skills), which several clients read.
A second time there is nothing to change. A file that somebody has changed is kept beside the new one as SKILL.md.bak.`,
		Example: "  orch skill install --client claude-code\n  orch skill install --client agents --project",
		Args:    takes(),
		RunE:    func(*cobra.Command, []string) error { return c.installSkill(o) },
	}
	cmd.Flags().StringVar(&o.client, "client", "claude-code", "whose folder: claude-code, copilot or agents")
	cmd.Flags().BoolVar(&o.project, "project", false, "the folder of the project, the root, instead of that of the user")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "say what would be written, and write nothing")
	return cmd
}

// installedSkill is the output of `orch skill install`.
type installedSkill struct {
	Path    string `json:"path"`
	Changed bool   `json:"changed"`
	// Backup is where the former file is kept, if there was another one.
	Backup string `json:"backup,omitempty"`
}

func (c *skillCommands) showSkill() error {
	data := map[string]string{"name": "orch", "text": skills.Orch}
	return c.emit(view{data: data, names: []string{"orch"}, text: func(w io.Writer) error {
		_, err := io.WriteString(w, skills.Orch)
		return err
	}})
}

func (c *skillCommands) installSkill(o skillOptions) error {
	path, err := c.skillFile(o)
	if err != nil {
		return err
	}
	done, err := writeSkill(path, o.dryRun)
	if err != nil {
		return fault.Wrap(fault.ValidationError, err, "the skill cannot be written to "+path).WithHint("choose another folder with --client, or with --project")
	}
	return c.emit(view{data: done, names: []string{done.Path}, text: func(w io.Writer) error {
		_, err := fmt.Fprintln(w, done.line(o.dryRun))
		return err
	}})
}

// skillFile returns the path of the file for a client. Errors: VALIDATION_ERROR.
func (c *skillCommands) skillFile(o skillOptions) (string, error) {
	folder, known := skillFolders()[o.client]
	if !known {
		return "", fault.New(fault.ValidationError, "orch knows no folder for skills of %q", o.client).WithField("client").
			WithHint("use claude-code, copilot or agents; orch skill prints the text for any other")
	}
	base := c.home
	if o.project {
		base = c.cfg.Root
	}
	if base == "" {
		return "", fault.New(fault.ValidationError, "this user has no home").WithHint("use --project")
	}
	if o.client == "copilot" && !o.project {
		return "", fault.New(fault.ValidationError, "copilot reads skills of projects alone").WithField("project").WithHint("add --project")
	}
	return filepath.Join(base, filepath.FromSlash(folder), "orch", "SKILL.md"), nil
}

// writeSkill writes the skill to a file, unless it is there already or this is only a trial.
func writeSkill(path string, trial bool) (installedSkill, error) {
	done := installedSkill{Path: path}
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return done, err
	}
	if err == nil && string(old) == skills.Orch {
		return done, nil
	}
	done.Changed = true
	if err == nil {
		done.Backup = path + ".bak"
	}
	if trial {
		return done, nil
	}
	if done.Backup != "" {
		if err := os.Rename(path, done.Backup); err != nil {
			return done, err
		}
	}
	const folderMode, fileMode = 0o755, 0o644
	if err := os.MkdirAll(filepath.Dir(path), folderMode); err != nil {
		return done, err
	}
	return done, os.WriteFile(path, []byte(skills.Orch), fileMode)
}

func (s installedSkill) line(trial bool) string {
	switch {
	case !s.Changed:
		return "nothing to change: " + s.Path
	case trial:
		return "would write " + s.Path
	case s.Backup != "":
		return "wrote " + s.Path + "; the former file is " + s.Backup
	default:
		return "wrote " + s.Path
	}
}
