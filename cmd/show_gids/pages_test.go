package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPagesFlags: each flag that a page or the help gives show_gids is in the list of flags in the help.
func TestPagesFlags(t *testing.T) {
	var help bytes.Buffer
	if code := run(t.Context(), []string{"--help"}, &help, &help); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	_, list, _ := strings.Cut(help.String(), "\nFlags:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	pages, err := filepath.Glob("../../docs/*.md")
	guides, err2 := filepath.Glob("../../docs/*/*.md")
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	texts := map[string]string{"help": help.String()}
	for _, name := range append(append(pages, guides...), "../../README.md") {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(b)
	}
	call := regexp.MustCompile("show_gids( [^`|;)#\n]*)")
	flag := regexp.MustCompile(` (--[a-z0-9]+|-[a-z0-9])`)
	found := 0
	for name, text := range texts {
		for _, m := range call.FindAllStringSubmatch(text, -1) {
			for _, f := range flag.FindAllStringSubmatch(m[1], -1) {
				if found++; !regexp.MustCompile(`(?m)^ +(-., +)?` + f[1] + `\b`).MatchString(list) {
					t.Errorf("%s: %q: there is no %s", name, m[0], f[1])
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("%d flags", found)
	}
}
