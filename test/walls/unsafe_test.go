package walls

import (
	"slices"
	"strings"
	"testing"
)

// unsafely returns the imports of unsafe that the table does not allow, and its rows without use. rows has the reason
// of each package; one that begins with "tests:" is for its tests alone.
func unsafely(rows map[string]string, files []file) []string {
	var out []string
	used := map[string]bool{}
	for _, f := range files {
		if !slices.Contains(f.imports, "unsafe") {
			continue
		}
		why, listed := rows[f.dir]
		tests := strings.HasPrefix(why, "tests:")
		switch {
		case !listed:
			out = append(out, f.path()+" imports unsafe, and "+f.dir+" is not listed")
		case tests && !f.test():
			out = append(out, f.path()+" imports unsafe, and "+f.dir+" is listed for tests")
		case tests || !f.test():
			used[f.dir] = true
		}
	}
	for dir := range rows {
		if !used[dir] {
			out = append(out, dir+" is listed without need")
		}
	}
	slices.Sort(out)
	return out
}

// TestUnsafe compares the packages that import unsafe with unsafeFile.
func TestUnsafe(t *testing.T) {
	rows := map[string]string{}
	for _, p := range pairs(t, unsafeFile) {
		if p[1] == "" {
			t.Errorf("%s: %s needs a reason", unsafeFile, p[0])
		}
		rows[p[0]] = p[1]
	}
	for _, s := range unsafely(rows, files(t)) {
		t.Errorf("%s: %s", unsafeFile, s)
	}
}

// TestUnsafeFails checks that TestUnsafe can fail.
func TestUnsafeFails(t *testing.T) {
	unsafe := []string{"fmt", "unsafe"}
	rows := map[string]string{"ibv": "memory of C", "rdma": "tests: rings", "rdmacm": "once",
		"cmd": "tests: once", "loader": "its tests"}
	got := unsafely(rows, []file{
		{"ibv", "a.go", unsafe},
		{"ibv", "a_test.go", unsafe},
		{"ibv/below", "a_unsafe.go", unsafe},
		{"rdma", "a_test.go", unsafe},
		{"rdma", "b.go", unsafe},
		{"rdmacm", "a.go", []string{"fmt"}},
		{"loader", "a_test.go", unsafe},
	})
	want := []string{
		"cmd is listed without need",
		"ibv/below/a_unsafe.go imports unsafe, and ibv/below is not listed",
		"loader is listed without need",
		"rdma/b.go imports unsafe, and rdma is listed for tests",
		"rdmacm is listed without need",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
