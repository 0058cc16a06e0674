package doctor

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPage compares the checks of docs/doctor.md with those of the code.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| check | reads |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var listed, made []string
	for line := range strings.Lines(table) {
		for _, m := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(strings.Split(line, "|")[1], -1) {
			listed = append(listed, m[1])
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range regexp.MustCompile(`Check: "([a-z]+)"|unusable\([^,]+, "([a-z]+)"`).FindAllStringSubmatch(
			string(text), -1) {
			made = append(made, m[1]+m[2])
		}
	}
	slices.Sort(listed)
	slices.Sort(made)
	if made = slices.Compact(made); !slices.Equal(listed, made) {
		t.Errorf("the page lists %v, the code makes %v", listed, made)
	}
}

func TestReason(t *testing.T) {
	r := &Report{}
	r.add(Finding{Severity: Note, Subject: "host", Check: "memlock", Text: "note"})
	if r.Reason() != "" {
		t.Errorf("of a note: %q", r.Reason())
	}
	r.add(Finding{Severity: Warning, Subject: "mlx5_0", Check: "pcie", Text: "slow"})
	r.add(Finding{Severity: Error, Subject: "mlx5_0/1", Check: "gid", Text: strings.Repeat("ä\n", 80)})
	r.add(Finding{Severity: Error, Subject: "host", Check: "library", Text: "later"})
	got := r.Reason()
	if len([]rune(got)) != 100 || !strings.HasPrefix(got, "error: mlx5_0/1 gid: ä") || !strings.HasSuffix(got, "…") ||
		strings.Contains(got, "\n") {
		t.Errorf("%q", got)
	}
}
