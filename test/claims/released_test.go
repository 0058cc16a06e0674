package claims

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var versionTitle = regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+)\b.*$`)

// sections returns the hash of each version's section of a changelog, with its title.
func sections(changelog string) map[string]string {
	found := map[string]string{}
	titles := versionTitle.FindAllStringSubmatchIndex(changelog, -1)
	for _, at := range titles {
		text, _, _ := strings.Cut(changelog[at[0]:], "\n## ")
		found[changelog[at[2]:at[3]]] = fmt.Sprintf("%x", sha256.Sum256([]byte(strings.TrimSpace(text))))
	}
	return found
}

// rewritten returns what is wrong with a changelog, given the lines "VERSION HASH" of released versions and the tags of
// the repository.
func rewritten(changelog string, recorded, tags []string) (bad []string) {
	have := sections(changelog)
	known := map[string]bool{}
	for _, line := range recorded {
		version, hash, _ := strings.Cut(line, " ")
		known[version] = true
		switch h := have[version]; {
		case h == "":
			bad = append(bad, version+" is released, and has no section")
		case h != hash:
			bad = append(bad, version+" is released, and its section has changed: a correction is a line under "+
				"Unreleased")
		}
	}
	for _, tag := range tags {
		if v := strings.TrimPrefix(tag, "v"); have[v] != "" && !known[v] {
			bad = append(bad, fmt.Sprintf("%s is released: add the line %q to testdata/released.txt", v, v+" "+have[v]))
		}
	}
	return bad
}

// TestReleased: the section of a released version stays as it was. testdata/released.txt has a hash of each; the first
// commit after a tag adds it.
func TestReleased(t *testing.T) {
	text, err := os.ReadFile(root + "/CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile("testdata/released.txt")
	if err != nil {
		t.Fatal(err)
	}
	tags, _ := exec.Command("git", "-C", root, "tag", "--list", "v*").Output() // a copy without git has no tags
	recorded := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(list)), "\n"),
		func(l string) bool { return l == "" || l[0] == '#' })
	for _, b := range rewritten(string(text), recorded, strings.Fields(string(tags))) {
		t.Error("CHANGELOG.md: " + b)
	}
}

// TestReleasedFails checks that TestReleased can fail.
func TestReleasedFails(t *testing.T) {
	const log = "# Changelog\n\n## Unreleased\n\n- new\n\n## 0.2.0\n\n- more\n\n## 0.1.0 (2026-12-01)\n\n- first\n"
	all := sections(log)
	if len(all) != 2 {
		t.Fatalf("sections %v, want two", all)
	}
	one, two := "0.1.0 "+all["0.1.0"], "0.2.0 "+all["0.2.0"]
	for name, tc := range map[string]struct {
		log      string
		recorded []string
		tags     []string
		want     string
	}{
		"nothing is released":     {log, nil, nil, ""},
		"both as they were":       {log, []string{one, two}, []string{"v0.1.0", "v0.2.0"}, ""},
		"a new line elsewhere":    {strings.Replace(log, "- new", "- new\n- newer", 1), []string{one, two}, nil, ""},
		"a blank line at the end": {log + "\n", []string{one, two}, nil, ""},
		"a word": {strings.Replace(log, "first", "the first", 1), []string{one, two}, nil,
			"0.1.0 is released, and its"},
		"a date": {strings.Replace(log, "12-01", "12-02", 1), []string{one}, nil,
			"0.1.0 is released, and its"},
		"a line moved there": {strings.Replace(log, "- more\n", "- more\n- new\n", 1), []string{two}, nil,
			"0.2.0 is released, and its"},
		"gone":                    {strings.Replace(log, "## 0.2.0\n", "", 1), []string{two}, nil, "no section"},
		"a tag without a line":    {log, []string{one}, []string{"v0.1.0", "v0.2.0"}, "add the line"},
		"a tag of something else": {log, []string{one}, []string{"v0.1.0", "v9.9.9"}, ""},
	} {
		got := strings.Join(rewritten(tc.log, tc.recorded, tc.tags), "\n")
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
