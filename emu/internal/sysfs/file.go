//go:build linux

package sysfs

import (
	"os"
	"path/filepath"
	"strings"
)

// fail keeps the first error, if err is one.
func (t *Tree) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// files writes a folder's files from pairs of names and contents.
func (t *Tree) files(dir string, pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		t.file(dir+"/"+pairs[i], pairs[i+1])
	}
}

// file writes or replaces a file, at once for whoever reads it; a newline is added to what is not empty.
func (t *Tree) file(path, content string) {
	if content != "" {
		content += "\n"
	}
	t.raw(path, []byte(content))
}

// raw writes a file of bytes.
func (t *Tree) raw(path string, content []byte) {
	t.dir(path[:strings.LastIndexByte(path, '/')])
	name := t.root + path
	if t.built {
		name = t.root + "/scratch/new"
	}
	err := os.WriteFile(name, content, 0o444)
	if t.built && err == nil {
		err = os.Rename(name, t.root+path)
	}
	if err != nil {
		t.fail(err)
		_ = os.Remove(name) // or the next one could not be made
	}
}

// same makes a file that shares its content with others until one of them is replaced: it costs less.
func (t *Tree) same(path, content string) {
	first := "/scratch/" + content
	if !t.made[first] {
		t.file(first, content)
		t.made[first] = true
	}
	t.dir(path[:strings.LastIndexByte(path, '/')])
	t.fail(os.Link(t.root+first, t.root+path))
}

func (t *Tree) dir(path string) {
	if t.made[path] {
		return
	}
	t.fail(os.MkdirAll(t.root+path, 0o755))
	t.made[path] = true
}

// link makes a relative link between two canonical paths of the tree. As the kernel's, it ends in the target's name
// even where the target is a parent: programs take the last element for the PCI address.
func (t *Tree) link(path, to string) {
	dir := filepath.Dir(path)
	t.dir(dir)
	rel, err := filepath.Rel(dir, filepath.Dir(to))
	if err == nil {
		err = os.Symlink(filepath.Join(rel, filepath.Base(to)), t.root+path)
	}
	t.fail(err)
}

func (t *Tree) remove(path string) {
	t.fail(os.RemoveAll(t.root + path))
	delete(t.made, path)
}
