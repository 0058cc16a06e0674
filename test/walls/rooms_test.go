package walls

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Trees whose packages have an order, and the files with their tables.
const (
	perfRooms = "cmd/perf/internal/"
	perfFile  = "test/walls/testdata/perf.txt"
	emuRooms  = "emu/internal/"
	emuFile   = "emu/internal/README.md"
)

// room is a package of such a tree, as the table has it.
type room struct {
	name    string
	imports []string
}

// rooms reads the table of packages in a page, or a file with a line "package: imports" for each, in its order.
func rooms(t *testing.T, path string) []room {
	t.Helper()
	var out []room
	if strings.HasSuffix(path, ".txt") {
		text, err := os.ReadFile(filepath.Join(repository, path))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if name, imports, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, "#") {
				out = append(out, room{name, strings.Fields(imports)})
			}
		}
		return out
	}
	for _, row := range table(t, path, "package", "holds", "imports") {
		out = append(out, room{row[0], names(row[2])})
	}
	return out
}

// crossings returns the contradictions between the files of a tree and its rooms.
func crossings(tree string, rooms []room, files []file) []string {
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
		name, ok := strings.CutPrefix(f.dir, tree)
		if !ok || strings.HasSuffix(f.name, "_test.go") {
			continue
		}
		if used[name] == nil {
			out = append(out, f.dir+" is not in the table")
			continue
		}
		for _, p := range f.imports {
			to, ok := strings.CutPrefix(p, module+tree)
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

// TestRooms compares the packages of perf and of the emulator with the files that list them.
func TestRooms(t *testing.T) {
	for tree, name := range map[string]string{perfRooms: perfFile, emuRooms: emuFile} {
		table := rooms(t, name)
		if len(table) < 5 {
			t.Fatalf("%s has %d packages", name, len(table))
		}
		for _, c := range crossings(tree, table, files(t)) {
			t.Errorf("%s: %s", name, c)
		}
	}
}

// TestRoomsFails checks that TestRooms can fail.
func TestRoomsFails(t *testing.T) {
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
		got := crossings(perfRooms, tc.table, slices.Concat(good, tc.more))
		if tc.want == "" && got != nil || tc.want != "" && !strings.Contains(strings.Join(got, "\n"), tc.want) {
			t.Errorf("%s: %q, want one that says %q", name, got, tc.want)
		}
	}
}
