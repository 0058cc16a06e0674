package testutil

import (
	"debug/buildinfo"
	"os"
	"path/filepath"
	"testing"
)

// NeedStock returns the path of a stock program. A Go program of that name is one of ours, and is passed over.
func NeedStock(t testing.TB, name string) string {
	t.Helper()
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil || info.Mode()&0o111 == 0 {
			continue
		}
		if _, err := buildinfo.ReadFile(path); err != nil { // not a Go program
			return path
		}
	}
	t.Fatalf("no stock %s in PATH", name)
	return ""
}
