package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The files that are there are what is generated.
func TestGenerated(t *testing.T) {
	files, err := generate("../..")
	if err != nil || len(files) != 3 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join("../..", name)); !bytes.Equal(got, want) {
			t.Errorf("%s is not what go generate ./emu/internal/uapi writes (%v)", name, err)
		}
	}
}

func TestParse(t *testing.T) {
	files, err := parse("# About.\npackage p\n\nA x_a,x_b # A is a\n\t# struct.\n\t64: B\n\t[4]8: C D=c.d_ 32: _\n" +
		"E - # E has an A.\n\tA: F\n")
	if err != nil {
		t.Fatal(err)
	}
	const structs = "// A is a\n// struct.\ntype A struct {\nB uint64\nC [4]uint8\n" +
		"D [4]uint8 `c:\"c.d_\"`\n_ uint32\n}\n\n// E has an A.\ntype E struct {\nF A\n}\n\n"
	if got := files["p/structs_gen.go"].String(); got != structs {
		t.Errorf("%s\nwant\n%s", got, structs)
	}
	if got := files["uapi/mirrors_gen_test.go"].String(); !strings.Contains(got, "{\n\"x_a\": A{},\n\"x_b\": A{},\n}") {
		t.Error(got)
	}
	for text, want := range map[string]string{
		"A -\n\t64: B":         "structs.txt:1: want NAME",
		"package p\n\t64: B":   "structs.txt:2: want NAME",
		"package p\nA":         "structs.txt:2: want NAME",
		"package p\nA -\n\tB":  "structs.txt:3: B has no type",
		"package p\nA - x # A": "structs.txt:2: want NAME",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}
