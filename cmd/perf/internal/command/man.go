package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/internal/buildinfo"
)

const manUsage = `rdmaperf man prints the manual page of rdmaperf, or of one of its commands, for man(1) and
mandoc(1).

  rdmaperf man | man -l -
  rdmaperf man doctor > rdmaperf-doctor.1

{flags}
Exit status: 0 success, 2 wrong usage.
`

func (v *invocation) man() *cobra.Command {
	c := &cobra.Command{Use: "man [COMMAND]", Long: manUsage, Short: "manual page of rdmaperf or of a command"}
	page := c
	c.ValidArgsFunction = func(c *cobra.Command, _ []string, _ string) (names []string, _ cobra.ShellCompDirective) {
		for _, sub := range c.Root().Commands() {
			if sub.IsAvailableCommand() { // not the one that the shell's script runs
				names = append(names, sub.Name())
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	c.Args = func(c *cobra.Command, words []string) error {
		page = c.Root()
		if len(words) == 0 {
			return nil
		}
		found, rest, err := page.Find(words)
		if err != nil || found == page || len(rest) > 0 {
			return fmt.Errorf("no manual page of %.100q; rdmaperf --help lists the commands", strings.Join(words, " "))
		}
		page = found
		return nil
	}
	c.Run = func(*cobra.Command, []string) { v.writeMan(v.stdout, page) }
	return c
}

// writeMan writes a manual page in the language of man(7).
func (v *invocation) writeMan(w io.Writer, c *cobra.Command) {
	fmt.Fprintf(w, ".TH %s 1 \"\" \"pureverbs %s\" \"User Commands\"\n", dashed(c), roff(buildinfo.Version()))
	fmt.Fprintf(w, ".SH NAME\n%s \\- %s\n.SH DESCRIPTION\n", dashed(c), roff(c.Short))
	before, after, _ := strings.Cut(c.Long, "{flags}")
	literal(w, strings.Replace(before, "{commands}", subcommands(c), 1))
	for _, s := range v.sections(c) {
		fmt.Fprintf(w, ".SH %s\n", roff(strings.ToUpper(strings.TrimSpace("options "+s.title))))
		s.flags.VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			name, text := pflag.UnquoteUsage(f)
			letter := ""
			if f.Shorthand != "" {
				letter = "-" + f.Shorthand + ", "
			}
			fmt.Fprintf(w, ".TP\n\\fB%s\\-\\-%s\\fR \\fI%s\\fR\n%s\n", roff(letter), roff(f.Name), roff(name),
				roff(text))
		})
	}
	if !c.HasParent() {
		fmt.Fprintln(w, ".SH ENVIRONMENT")
		for _, v := range environment {
			wins := ""
			if v.options != "" {
				wins = "; overridden by " + v.options
			}
			fmt.Fprintf(w, ".TP\n\\fB%s\\fR\n%s\n", roff(strings.ReplaceAll(v.names, " ", ", ")), roff(v.means+wins))
		}
	}
	if after != "" {
		fmt.Fprintln(w, ".SH EXIT STATUS")
		literal(w, strings.TrimPrefix(strings.TrimSpace(after), "Exit status: "))
	}
}

func dashed(c *cobra.Command) string { return roff(strings.ReplaceAll(c.CommandPath(), " ", "-")) }

// literal writes text whose lines stay as they are.
func literal(w io.Writer, text string) {
	fmt.Fprintf(w, ".nf\n%s\n.fi\n", roff(strings.TrimSpace(text)))
}

// roff protects what the language of manual pages gives a meaning.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
