package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestUpToDate(t *testing.T) {
	for i := range generated {
		src, err := generated[i].source("..")
		if err != nil {
			t.Fatal(err)
		}
		old, err := os.ReadFile(filepath.Join("..", generated[i].to))
		if err != nil || !bytes.Equal(old, src) {
			t.Errorf("%s is not up to date: run go generate ./internal/control (%v)", generated[i].to, err)
		}
	}
}
