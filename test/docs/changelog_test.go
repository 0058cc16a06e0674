package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// section returns the section of a version in a changelog, or "".
func section(changelog, version string) string {
	_, text, found := strings.Cut("\n"+changelog, "\n## "+version+"\n")
	if !found {
		return ""
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return strings.TrimSpace(text)
}

// rewritten returns why a changelog must not follow one that was released, or "".
func rewritten(released, now, version string) string {
	switch old := section(released, version); section(now, version) {
	case old:
		return ""
	case "":
		return "CHANGELOG.md has no section " + version + " any more"
	}
	return "the section " + version + " of CHANGELOG.md is not that of the tag v" + version
}

// TestReleased compares the sections of released versions, which have a tag, with those of the tags.
func TestReleased(t *testing.T) {
	git := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", repository}, args...)...).Output()
		if err != nil {
			t.Logf("git %v: %v", args, err) // without git, or in the sources of a release, no version is known
		}
		return string(out)
	}
	now, err := os.ReadFile(filepath.Join(repository, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range strings.Fields(git("tag", "--list", "v[0-9]*")) {
		version := strings.TrimPrefix(tag, "v")
		if why := rewritten(git("show", tag+":CHANGELOG.md"), string(now), version); why != "" {
			t.Error(why)
		}
	}
}

func TestRewritten(t *testing.T) {
	const released = "# Changelog\n\n## Unreleased\n\n## 0.1.0\n\nThe first.\n"
	for now, says := range map[string]string{
		released: "",
		"# Changelog\n\n## Unreleased\n\n- new\n\n## 0.2.0\n\nMore.\n\n## 0.1.0\n\nThe first.\n": "",
		"# Changelog\n\n## 0.1.0\n\nThe first. More.\n":                                          "not that of the tag",
		"# Changelog\n\n## 0.1.0\n\nThe first.\n\n- more\n":                                      "not that of the tag",
		"# Changelog\n\n## 0.1.0-rc1\n\nThe first.\n":                                            "no section 0.1.0",
	} {
		if why := rewritten(released, now, "0.1.0"); why == "" != (says == "") || !strings.Contains(why, says) {
			t.Errorf("%q: %q, want %q", now, why, says)
		}
	}
}
