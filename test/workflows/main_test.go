package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const root = "../.."

var (
	makes   = regexp.MustCompile(`\bmake ([a-z][a-z0-9-]*)`)
	scripts = regexp.MustCompile(`\bscripts/[a-z-]+`)
)

// targets returns the targets of the Makefile.
func targets(t *testing.T) map[string]bool {
	t.Helper()
	c := exec.Command("make", "-pRrq", "-C", root, ":")
	out, _ := c.Output() // the target ":" is not there
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`).FindAllStringSubmatch(string(out), -1) {
		found[m[1]] = true
	}
	if !found["build"] || !found["test-unit"] {
		t.Fatalf("the Makefile has no target build or test-unit: %v", slices.Sorted(maps.Keys(found)))
	}
	return found
}

// missing returns what a job asks of the repository that it does not have.
func missing(j job, targets map[string]bool, exists func(path string) bool) (list []string, err error) {
	variants, err := j.variants()
	if err != nil {
		return nil, err
	}
	for _, values := range variants {
		for _, v := range []string{"github.token", "github.run_number", "github.event.repository.name"} {
			values[v] = "x"
		}
		steps, err := j.commands(values, "")
		if err != nil {
			return nil, err
		}
		for _, s := range steps {
			text := s.Run
			for tier := range strings.FieldsSeq(s.Env["TIERS"]) {
				text += "\nmake test-" + tier
			}
			text = strings.ReplaceAll(text, `make test-"$tier"`, "")
			for _, m := range makes.FindAllStringSubmatch(text, -1) {
				if !targets[m[1]] {
					list = append(list, "make "+m[1])
				}
			}
			for _, p := range scripts.FindAllString(text, -1) {
				if !exists(p) {
					list = append(list, p)
				}
			}
		}
	}
	return list, nil
}

// TestTargets: the workflows ask make and scripts for what is here. actionlint checks the rest of them.
func TestTargets(t *testing.T) {
	files, err := filepath.Glob(root + "/.github/workflows/*.yml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%v, %v: want four workflows", files, err)
	}
	have := targets(t)
	exists := func(path string) bool {
		_, err := os.Stat(filepath.Join(root, path))
		return err == nil
	}
	made := map[string]bool{}
	for _, file := range files {
		w, err := read(file)
		if err != nil {
			t.Fatal(err)
		}
		for name, j := range w.Jobs {
			list, err := missing(j, have, exists)
			if err != nil || list != nil {
				t.Errorf("%s, job %s: the repository has no %q, %v", file, name, list, err)
			}
			for _, s := range j.Steps {
				for _, m := range makes.FindAllStringSubmatch(s.Run, -1) {
					made[m[1]] = true
				}
			}
		}
	}
	for _, want := range []string{"test", "release", "docs", "outdated"} {
		if !made[want] {
			t.Errorf("no workflow runs make %s", want)
		}
	}
}

// TestTargetsFails checks that TestTargets can fail.
func TestTargetsFails(t *testing.T) {
	var w workflow
	if err := yaml.Unmarshal([]byte(`
jobs:
  a:
    strategy: {matrix: {tiers: [lint unit, gone]}}
    steps:
      - uses: actions/checkout@v5
      - {name: tests, env: {TIERS: "${{ matrix.tiers }}"}, run: 'for tier in $TIERS; do make test-"$tier" || exit; done'}
      - {name: other, run: "make setup\nmake nothing && scripts/here && scripts/not-here"}
`), &w); err != nil {
		t.Fatal(err)
	}
	list, err := missing(w.Jobs["a"], map[string]bool{"setup": true, "test-lint": true, "test-unit": true},
		func(path string) bool { return path == "scripts/here" })
	slices.Sort(list)
	want := []string{"make nothing", "make test-gone", "scripts/not-here"}
	if got := slices.Compact(list); err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if _, err := (job{Steps: []step{{Run: "${{ secrets.x }}"}}}).commands(nil, ""); err == nil {
		t.Error("an unknown expression is no error")
	}
	left, err := (job{Steps: []step{{Name: "a", Run: "${{ secrets.x }}"}, {Name: "b", Run: "true"}}}).commands(nil, "a")
	if err != nil || len(left) != 1 || left[0].Name != "b" {
		t.Errorf("without a step whose value is unknown: %v, %v", left, err)
	}
}

// TestForms: the forms for issues ask for what a maintainer needs.
func TestForms(t *testing.T) {
	for name, wants := range map[string][]string{
		"bug.yml":      {"rdmaperf doctor --json", "loader.Report()"},
		"adapter.yml":  {"pureverbs-hw.json", "hardware.md"},
		"question.yml": nil,
	} {
		b, err := os.ReadFile(filepath.Join(root, ".github/ISSUE_TEMPLATE", name))
		if err != nil {
			t.Fatal(err)
		}
		var form struct {
			Name        string `yaml:"name"`
			Description string `yaml:"description"`
			Body        []struct {
				Type       string         `yaml:"type"`
				ID         string         `yaml:"id"`
				Attributes map[string]any `yaml:"attributes"`
			} `yaml:"body"`
		}
		if err := yaml.Unmarshal(b, &form); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ids := map[string]bool{}
		for _, f := range form.Body {
			if f.Type != "markdown" && (f.ID == "" || ids[f.ID] || f.Attributes["label"] == nil) {
				t.Errorf("%s: a field without a label or an id of its own: %+v", name, f)
			}
			ids[f.ID] = true
		}
		if form.Name == "" || form.Description == "" || len(form.Body) == 0 {
			t.Errorf("%s: %+v", name, form)
		}
		for _, want := range wants {
			if !strings.Contains(string(b), want) {
				t.Errorf("%s does not ask for %s", name, want)
			}
		}
	}
}
