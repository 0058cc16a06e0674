package sysfs

import (
	"io"
	"os"
	"slices"
)

// Attr reads the attribute with this path below the root, without the line end. No element but the last may be a file,
// and the last is not followed as a symbolic link.
func (r Root) Attr(elem ...string) (string, error) { return r.one(elem, (*dir).attr) }

// Number reads an attribute that holds one number.
func (r Root) Number(elem ...string) (n int64, ok bool) {
	text, _ := r.Attr(elem...)
	return parseNumber(text)
}

// Link returns where the symbolic link with this path leads to.
func (r Root) Link(elem ...string) (string, error) { return r.one(elem, (*dir).readlink) }

// Names lists the directory with this path in numeric order.
func (r Root) Names(elem ...string) ([]string, error) { return namesOf(r.Entries(elem...)) }

// Entries lists the directory with this path in numeric order.
func (r Root) Entries(elem ...string) ([]Entry, error) {
	if err := validPath(elem); err != nil {
		return nil, err
	}
	d, err := openDir(r.path(elem...))
	if err != nil {
		return nil, err
	}
	defer d.close()
	list, err := d.entries()
	slices.SortFunc(list, func(a, b Entry) int { return NaturalCompare(a.Name, b.Name) })
	return list, err
}

// one reads the last element of a path in the directory in which it is.
func (r Root) one(elem []string, read func(d *dir, name string) (string, error)) (string, error) {
	if err := validPath(elem); err != nil {
		return "", err
	}
	last := len(elem) - 1
	d, err := dirOfOne(r.path(elem[:last]...))
	if err != nil {
		return "", err
	}
	defer d.close()
	return read(d, elem[last])
}

func validPath(elem []string) error {
	for _, e := range elem {
		if !validName(e) {
			return badName("element", e)
		}
	}
	if len(elem) == 0 {
		return badName("element", "")
	}
	return nil
}

// File reads a file of this tree that the kernel does not have, and that may be longer than an attribute.
func (r Root) File(name string) (string, error) {
	if err := validPath([]string{name}); err != nil {
		return "", err
	}
	f, err := os.Open(r.path(name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 1<<20))
	return string(b), err
}
