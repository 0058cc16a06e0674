// Package gotext has the parts that the programs that generate Go share.
package gotext

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
)

// Main writes what generate returns: files by their names, which are relative to root.
func Main(root string, generate func(root string) (map[string][]byte, error)) {
	files, err := generate(root)
	for name, src := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(root, name), src, 0o644)
		}
	}
	if err != nil {
		log.Fatal(err)
	}
}

// Stale returns an error that names the files, of so many, which are not what generate returns.
func Stale(root string, number int, generate func(root string) (map[string][]byte, error)) error {
	files, err := generate(root)
	if len(files) != number {
		err = errors.Join(err, fmt.Errorf("%d files are generated, want %d", len(files), number))
	}
	for name, want := range files {
		if got, bad := os.ReadFile(filepath.Join(root, name)); bad != nil || !bytes.Equal(got, want) {
			err = errors.Join(err, fmt.Errorf("%s is stale: run the go generate that it names", name), bad)
		}
	}
	return err
}

// Experimental begins a paragraph, as a line feed does.
const Experimental = " Experimental: "

// Paragraphs writes documentation.
func Paragraphs(w io.Writer, text string) {
	text = strings.ReplaceAll(text, Experimental, "\n"+Experimental)
	for i, p := range strings.Split(text, "\n") {
		if i > 0 {
			fmt.Fprintln(w, "//")
		}
		Comment(w, p, 116) // of constants they are indented
	}
}

// Comment writes a comment of at most so many columns.
func Comment(w io.Writer, text string, most int) {
	line := "//"
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > most {
			fmt.Fprintln(w, line)
			line = "//"
		}
		line += " " + word
	}
	fmt.Fprintln(w, line)
}

// Unexported is a name with its first word in small letters.
func Unexported(name string) string {
	n := strings.IndexFunc(name, func(r rune) bool { return r > 'Z' })
	if n < 0 {
		return strings.ToLower(name)
	}
	n = max(n-1, 1)
	return strings.ToLower(name[:n]) + name[n:]
}
