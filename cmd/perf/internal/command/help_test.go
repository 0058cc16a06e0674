package command

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// said runs a command line that ends with success, and returns what it prints.
func said(t *testing.T, args ...string) string {
	t.Helper()
	var out, diag bytes.Buffer
	if rc := run(t.Context(), args, &out, &diag); rc != exitOK {
		t.Errorf("rdmaperf %s: exit code %d, %s", strings.Join(args, " "), rc, &diag)
	}
	return out.String()
}

// TestHelpOfTests: the help of a test has the flags that the test takes, and the others are refused.
func TestHelpOfTests(t *testing.T) {
	values := map[string]string{"payload-file-path": "testdata/payload.txt", "MGID": "ff0e::1",
		"source-ip": "::1", "dest-ip": "::1", "source-mac": "02:00:00:00:00:01", "dest-mac": "02:00:00:00:00:01"}
	for _, verb := range testVerbs {
		for _, metric := range []string{"bw", "lat"} {
			o := &options{}
			f := flagSet(o)
			help := said(t, verb.String(), metric, "--help")
			for _, s := range o.table {
				for _, row := range s.flags {
					fl := f.Lookup(row.name())
					_, after, shown := strings.Cut(help, " --"+fl.Name)
					for shown && !strings.ContainsAny(after[:1], " \n[") { // a longer name
						_, after, shown = strings.Cut(after, " --"+fl.Name)
					}
					if want := s.title != hidden && row.fits(verb.String(), metric); shown != want {
						t.Errorf("rdmaperf %v %s --help shows --%s: %v", verb, metric, fl.Name, shown)
					}
					if slices.Contains([]string{"source-ip", "perform-warm-up"}, fl.Name) {
						continue // 6.06's name of --bind-source-ip; without effect elsewhere, as in perftest
					}
					value := "1"
					switch {
					case fl.NoOptDefVal != "":
						value = fl.NoOptDefVal
					case row.among != "":
						continue // a choice that has no effect is accepted
					case values[fl.Name] != "":
						value = values[fl.Name]
					}
					args := []string{verb.String(), metric, "--" + fl.Name + "=" + value, "host"}
					if _, err := parse(args); err == nil && !row.fits(verb.String(), metric) {
						t.Errorf("rdmaperf %s: accepted, but not in the help", strings.Join(args, " "))
					}
				}
			}
		}
	}
}

// TestHelpFits: every help page fits 100 columns.
func TestHelpFits(t *testing.T) {
	pages := [][]string{{}}
	var add func(c *cobra.Command, path []string)
	add = func(c *cobra.Command, path []string) {
		for _, sub := range c.Commands() {
			if sub.Name() == "help" {
				continue // of a command's own
			}
			path := append(slices.Clone(path), sub.Name())
			pages = append(pages, path)
			add(sub, path)
		}
	}
	root := (&invocation{stdout: io.Discard, stderr: io.Discard}).root()
	root.InitDefaultCompletionCmd()
	add(root, nil)
	for _, verb := range testVerbs {
		for _, metric := range []string{"bw", "lat"} {
			pages = append(pages, []string{verb.String(), metric})
		}
	}
	seen := map[string]bool{}
	for _, page := range pages {
		seen[strings.Join(page, " ")] = true
		for line := range strings.Lines(said(t, append(page, "--help")...)) {
			if line = strings.TrimSuffix(line, "\n"); utf8.RuneCountInString(line) > 100 {
				t.Errorf("rdmaperf %s --help: %d columns: %q", strings.Join(page, " "), utf8.RuneCountInString(line),
					line)
			}
		}
	}
	for _, page := range []string{"", "compare", "doctor", "mesh", "serve", "stream", "completion bash", "write lat"} {
		if !seen[page] {
			t.Errorf("no page of rdmaperf %s", page)
		}
	}
}

// TestSuggestions: a mistyped flag or command is answered with the one that is meant.
func TestSuggestions(t *testing.T) {
	for line, want := range map[string]string{
		"write bw --sizez 4":  "did you mean --size or --sizes?",
		"write bw --dvration": "did you mean --duration?",
		"wrte bw":             "did you mean write?",
		"docter":              "did you mean doctor?",
		"doctor --verbos":     "--verbose",
		"mesh --hots a,b":     "did you mean --hosts?",
		"write bw --foo":      "unknown flag: --foo\nrdmaperf write",
		"foo bw":              `verb "foo"`,
	} {
		var diag bytes.Buffer
		if rc := run(t.Context(), strings.Fields(line), io.Discard, &diag); rc != exitUsage ||
			!strings.Contains(diag.String(), want) {
			t.Errorf("rdmaperf %s: exit code %d, %q, want %q", line, rc, &diag, want)
		}
	}
}

// TestOptionsFirst: options may come before a test, but not before another command, which would not see them.
func TestOptionsFirst(t *testing.T) {
	for line, want := range map[string]string{
		"-d nothere -s 4K write lat -n 3":  "(-n) 3 < 5",
		"-bd nothere write bw -n 3":        "(-n) 3 < 5",
		"-d nothere doctor":                "give the options after doctor",
		"-d write read --report-both bw":   "in both directions (-b)",
		"--report_both -d nothere read bw": "in both directions (-b)",
	} {
		var diag bytes.Buffer
		if rc := run(t.Context(), strings.Fields(line), io.Discard, &diag); rc != exitUsage ||
			!strings.Contains(diag.String(), want) {
			t.Errorf("rdmaperf %s: exit code %d, %q, want %q", line, rc, &diag, want)
		}
	}
}

func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{
		"wr":              "write",
		"write|":          "bw lat",
		"write bw -c|":    "RC UC UD XRC DC SRD RawEth",
		"read lat --max-": "--max-lat --max-p99",
		"doctor --": "--json --verbose --reason --fail-on --serve --native --port --bind --version " +
			"--help",
		"-d mlx5_0 atomic bw -A|": "FETCH_AND_ADD CMP_AND_SWAP",
	} {
		words, space := strings.CutSuffix(line, "|")
		args := append([]string{"__complete"}, strings.Fields(words)...)
		if space {
			args = append(args, "")
		}
		var got []string
		for l := range strings.Lines(said(t, args...)) {
			word, _, _ := strings.Cut(strings.TrimSpace(l), "\t")
			if !strings.HasPrefix(word, ":") {
				got = append(got, word)
			}
		}
		if !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("rdmaperf %s: %q, want %q", line, got, want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if s := said(t, "completion", shell); !strings.Contains(s, "__complete") {
			t.Errorf("%s: %q", shell, s)
		}
	}
}

var flagLine = regexp.MustCompile(`^(?:  -., |      )--([A-Za-z0-9-]+)`)

// TestMan: the manual page of a command has all of its flags, and its exit status.
func TestMan(t *testing.T) {
	for _, name := range []string{"", "write", "read", "send", "atomic", "stream", "message", "compare", "report",
		"doctor", "selftest", "serve", "mesh", "man", "version"} {
		page := said(t, append([]string{"man"}, strings.Fields(name)...)...)
		for _, want := range []string{".TH rdmaperf", ".SH NAME\nrdmaperf", ".SH DESCRIPTION\n", ".SH EXIT STATUS\n"} {
			if !strings.Contains(page, want) {
				t.Errorf("page of %q has no %q", name, want)
			}
		}
		help := said(t, append(strings.Fields(name), "--help")...)
		for line := range strings.Lines(help) {
			if m := flagLine.FindStringSubmatch(line); m != nil &&
				!strings.Contains(page, `\-\-`+strings.ReplaceAll(m[1], "-", `\-`)+`\fR`) {
				t.Errorf("page of %q has no --%s", name, m[1])
			}
		}
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !slices.Contains(
				[]string{".TH", ".SH", ".TP", ".nf", ".fi"}, strings.Fields(line)[0]) {
				t.Errorf("page of %q: %q is no macro", name, line)
			}
		}
	}
	var diag bytes.Buffer
	if rc := run(t.Context(), []string{"man", "nothing"}, io.Discard, &diag); rc != exitUsage {
		t.Errorf("page of nothing: exit code %d, %q", rc, &diag)
	}
}

// TestTable: a row's names, excluded and needed flags exist.
func TestTable(t *testing.T) {
	o := &options{}
	f := flagSet(o)
	for _, s := range o.table {
		for _, row := range s.flags {
			for _, other := range append(strings.Fields(row.excludes), row.needs.flag) {
				if other != "" && f.Lookup(other) == nil {
					t.Errorf("--%s: there is no --%s", row.name(), other)
				}
			}
			for _, word := range strings.Fields(row.tests) {
				if !slices.Contains([]string{"write", "read", "send", "atomic", "bw", "lat"}, word) {
					t.Errorf("--%s: there is no test %s", row.name(), word)
				}
			}
			for _, word := range strings.Fields(row.among) {
				if err := f.Set(row.name(), word); err != nil {
					t.Errorf("%s is among its words: %v", word, err)
				}
			}
		}
	}
	f.VisitAll(func(fl *pflag.Flag) {
		if fl.Usage == "" {
			t.Errorf("--%s has no text", fl.Name)
		}
	})
}
