package sysfs

import (
	"errors"
	"io/fs"
	"slices"
	"testing"

	"github.com/pureverbs/pureverbs/internal/sysfs/sysfstest"
)

func TestAttr(t *testing.T) {
	tr := sysfstest.New(t)
	tr.Write("kernel/a", "17")
	tr.Write("kernel/text", "x y")
	tr.Symlink("a", "kernel/b")
	r := Root(tr.Root)
	if s, err := r.Attr("kernel", "text"); s != "x y" || err != nil {
		t.Errorf("%q, %v", s, err)
	}
	if n, ok := r.Number("kernel", "a"); n != 17 || !ok {
		t.Errorf("%d, %v", n, ok)
	}
	if s, err := r.Link("kernel", "b"); s != "a" || err != nil {
		t.Errorf("%q, %v", s, err)
	}
	if s, err := r.Attr("kernel", "b"); err == nil {
		t.Errorf("a link was followed: %q", s)
	}
	if names, err := r.Names("kernel"); !slices.Equal(names, []string{"a", "b", "text"}) || err != nil {
		t.Errorf("%q, %v", names, err)
	}
	for _, bad := range [][]string{nil, {""}, {"..", "x"}, {"kernel", "."}, {"kernel/a"}, {"a\x00"}} {
		_, err1 := r.Attr(bad...)
		_, err2 := r.Names(bad...)
		_, err3 := r.Link(bad...)
		_, ok := r.Number(bad...)
		for _, err := range []error{err1, err2, err3} {
			if !errors.Is(err, fs.ErrInvalid) || ok {
				t.Errorf("%q: %v", bad, err)
			}
		}
	}
	if _, err := r.Attr("kernel", "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
