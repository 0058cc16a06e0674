package plan

import (
	"fmt"
	"regexp"
	"strings"
)

// Flag is a flag as pflag lists it in a program's help.
type Flag struct{ Letter, Name, Value, Text string }

// Help is a program's help, in parts.
type Help struct {
	Before, After string
	Flags         []Flag
}

var flagLine = regexp.MustCompile(`^ {2,6}(?:-(\w), )?--([\w-]+)(\[?[ =][^ ]+)? {2,}(.*)$`)

// ParseHelp reads the help of a program that has one list of flags.
func ParseHelp(text string) Help {
	var h Help
	column := 0 // at which the texts of flags begin
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		m := flagLine.FindStringSubmatch(line)
		switch {
		case m != nil && h.After == "":
			value, _, _ := strings.Cut(strings.TrimLeft(m[3], " ="), "[=")
			h.Flags = append(h.Flags, Flag{m[1], m[2], value, m[4]})
			column = len(line) - len(m[4])
		case h.Flags == nil:
			h.Before += line + "\n"
		case h.After == "" && column > 0 && strings.HasPrefix(line, strings.Repeat(" ", column)):
			h.Flags[len(h.Flags)-1].Text += " " + strings.TrimSpace(line)
		default:
			h.After += line + "\n"
		}
	}
	h.Before = strings.TrimSuffix(strings.TrimRight(h.Before, "\n"), "\nFlags:")
	h.Before, h.After = strings.TrimSpace(h.Before), strings.TrimSpace(h.After)
	return h
}

// Man returns the manual page of a program in the language of man(7).
func (h Help) Man(b Build, version string) string {
	var w strings.Builder
	fmt.Fprintf(&w, ".TH %s 1 \"\" \"pureverbs %s\" \"User Commands\"\n", roff(b.Program), roff(version))
	fmt.Fprintf(&w, ".SH NAME\n%s \\- %s\n.SH DESCRIPTION\n.nf\n%s\n.fi\n", roff(b.Program), roff(b.Summary),
		roff(h.Before))
	if len(h.Flags) > 0 {
		w.WriteString(".SH OPTIONS\n")
	}
	for _, f := range h.Flags {
		letter := ""
		if f.Letter != "" {
			letter = `\-` + f.Letter + ", "
		}
		fmt.Fprintf(&w, ".TP\n\\fB%s\\-\\-%s\\fR \\fI%s\\fR\n%s\n", letter, roff(f.Name), roff(f.Value), roff(f.Text))
	}
	if h.After != "" {
		fmt.Fprintf(&w, ".SH NOTES\n.nf\n%s\n.fi\n", roff(h.After))
	}
	return w.String()
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

// Completions returns the scripts that complete the flags of a program, by the path below the folder completions.
// What is no flag is the name of a device or, for emu, a command.
func (h Help) Completions(program string) map[string]string {
	return map[string]string{
		"bash/" + program:           h.bash(program),
		"zsh/_" + program:           h.zsh(program),
		"fish/" + program + ".fish": h.fish(program),
	}
}

const devices = "ls /sys/class/infiniband 2>/dev/null"

func (h Help) bash(program string) string {
	var names []string
	for _, f := range h.Flags {
		names = append(names, "--"+f.Name)
		if f.Letter != "" {
			names = append(names, "-"+f.Letter)
		}
	}
	words := fmt.Sprintf(`COMPREPLY=($(compgen -W "$(%s)" -- "$cur"))`, devices)
	if program == "emu" {
		words = `COMPREPLY=($(compgen -c -- "$cur"))`
	}
	return fmt.Sprintf(`# bash completion for %[1]s
_%[1]s() {
	local cur=${COMP_WORDS[COMP_CWORD]}
	case $cur in
	-*) COMPREPLY=($(compgen -W "%[2]s" -- "$cur")) ;;
	*) %[3]s ;;
	esac
}
complete -o default -F _%[1]s %[1]s
`, program, strings.Join(names, " "), words)
}

func (h Help) zsh(program string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#compdef %s\n_arguments -s", program)
	text := strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, "'", `'\''`)
	for _, f := range h.Flags {
		value := ""
		if f.Value != "" {
			value = ":" + strings.ReplaceAll(text.Replace(f.Value), ":", `\:`) + ": "
		}
		equals := map[bool]string{true: "="}[value != ""]
		fmt.Fprintf(&b, " \\\n\t'--%s%s[%s]%s'", f.Name, equals, text.Replace(f.Text), value)
		if f.Letter != "" {
			fmt.Fprintf(&b, " \\\n\t'-%s[%s]%s'", f.Letter, text.Replace(f.Text), value)
		}
	}
	words := "'*:device:($(" + devices + "))'"
	if program == "emu" {
		words = "'*::: : _normal'"
	}
	fmt.Fprintf(&b, " \\\n\t%s\n", words)
	return b.String()
}

func (h Help) fish(program string) string {
	var b strings.Builder
	words := "(" + devices + ")"
	if program == "emu" {
		words = "(__fish_complete_subcommand)"
	}
	fmt.Fprintf(&b, "# fish completion for %s\ncomplete -c %[1]s -f -a '%s'\n", program, words)
	text := strings.NewReplacer(`\`, `\\`, "'", `\'`)
	for _, f := range h.Flags {
		fmt.Fprintf(&b, "complete -c %s -l %s", program, f.Name)
		if f.Letter != "" {
			fmt.Fprintf(&b, " -s %s", f.Letter)
		}
		if f.Value != "" {
			b.WriteString(" -r")
		}
		fmt.Fprintf(&b, " -d '%s'\n", text.Replace(f.Text))
	}
	return b.String()
}
