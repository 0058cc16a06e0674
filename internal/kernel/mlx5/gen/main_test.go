package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestUpToDate(t *testing.T) {
	src, err := source("..")
	if err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(filepath.Join("..", output))
	if err != nil || !bytes.Equal(old, src) {
		t.Errorf("%s is not up to date: run go generate ./internal/kernel/mlx5 (%v)", output, err)
	}
}
