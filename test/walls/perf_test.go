package walls

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const perfRooms = "cmd/perf/internal/"

// room is a package below cmd/perf/internal, as cmd/perf/README.md has it.
type room struct {
	name    string
	imports []string
}

var quoted = regexp.MustCompile("`([^`]+)`")

// rooms reads the table of packages, in its order.
func rooms(t *testing.T) []room {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "cmd", "perf", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "| package | holds | imports |\n")
	if !ok {
		t.Fatal("cmd/perf/README.md has no table of packages")
	}
	var out []room
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			break
		}
		name := quoted.FindStringSubmatch(cells[1])
		if name == nil {
			continue // the rule below the heads
		}
		r := room{name: name[1]}
		for _, m := range quoted.FindAllStringSubmatch(cells[3], -1) {
			r.imports = append(r.imports, m[1])
		}
		out = append(out, r)
	}
	return out
}

// crossings returns the contradictions between files and rooms.
func crossings(rooms []room, files []file) []string {
	var out []string
	allowed, used := map[string][]string{}, map[string]map[string]bool{}
	for _, r := range rooms {
		for _, i := range r.imports {
			if _, above := allowed[i]; !above {
				out = append(out, fmt.Sprintf("%s imports %s, which is not above it", r.name, i))
			}
		}
		allowed[r.name], used[r.name] = r.imports, map[string]bool{}
	}
	for _, f := range files {
		name, ok := strings.CutPrefix(f.dir, perfRooms)
		if !ok || strings.HasSuffix(f.name, "_test.go") {
			continue
		}
		if used[name] == nil {
			out = append(out, f.dir+" is not in the table")
			continue
		}
		for _, p := range f.imports {
			to, ok := strings.CutPrefix(p, module+perfRooms)
			if !ok {
				continue
			}
			used[name][to] = true
			if !slices.Contains(allowed[name], to) {
				out = append(out, fmt.Sprintf("%s/%s imports %s, which is not in its row", f.dir, f.name, to))
			}
		}
	}
	for _, r := range rooms {
		for _, i := range r.imports {
			if !used[r.name][i] {
				out = append(out, fmt.Sprintf("%s does not import %s", r.name, i))
			}
		}
	}
	return out
}

// TestPerfRooms holds perf's packages to the table in its README.
func TestPerfRooms(t *testing.T) {
	table := rooms(t)
	if len(table) < 5 {
		t.Fatalf("the table has %d packages", len(table))
	}
	for _, c := range crossings(table, files(t)) {
		t.Error(c)
	}
}

// TestPerfRoomsFails checks that TestPerfRooms can fail.
func TestPerfRoomsFails(t *testing.T) {
	path := func(name string) []string { return []string{module + perfRooms + name} }
	table := []room{{"wire", nil}, {"loop", nil}, {"session", []string{"wire"}}}
	good := []file{{perfRooms + "wire", "a.go", nil}, {perfRooms + "session", "a.go", path("wire")}}
	for name, tc := range map[string]struct {
		table []room
		more  []file
		want  string
	}{
		"nothing":       {table, nil, ""},
		"a test":        {table, []file{{perfRooms + "loop", "a_test.go", path("session")}}, ""},
		"a wall":        {table, []file{{perfRooms + "loop", "b.go", path("session")}}, "loop/b.go imports session"},
		"a new package": {table, []file{{perfRooms + "chart", "a.go", nil}}, "chart is not in the table"},
		"a row too much": {append(slices.Clone(table), room{"report", []string{"loop"}}), nil,
			"report does not import loop"},
		"a wrong order": {[]room{table[2], table[0], table[1]}, nil, "wire, which is not above it"},
		"a circle of rows": {[]room{table[0], {"loop", []string{"loop"}}, table[2]}, nil,
			"loop, which is not above it"},
	} {
		got := crossings(tc.table, slices.Concat(good, tc.more))
		if tc.want == "" && got != nil || tc.want != "" && !strings.Contains(strings.Join(got, "\n"), tc.want) {
			t.Errorf("%s: %q, want one that says %q", name, got, tc.want)
		}
	}
}
