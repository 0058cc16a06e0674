package testutil

import (
	"os"
	"path/filepath"
	"testing"
)

// NeedStock returns the path of the stock program of a name that one of our programs has too, which comes first in
// PATH.
func NeedStock(t testing.TB, name string) string {
	t.Helper()
	ours, err := os.Stat(NeedProgram(t, name))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && !os.SameFile(info, ours) && info.Mode()&0o111 != 0 {
			return path
		}
	}
	t.Fatalf("no stock %s in PATH", name)
	return ""
}
