package cmem

import (
	"strings"
	"testing"
	"unsafe"
)

type pair struct{ a, b uint32 }

// c stands for memory of C: a package variable does not move.
var c struct {
	pairs [3]pair
	text  [maxString + 8]byte
}

func TestViews(t *testing.T) {
	c.pairs = [3]pair{{1, 2}, {3, 4}, {5, 6}}
	p := uintptr(unsafe.Pointer(&c.pairs))
	if got := At[pair](p + unsafe.Sizeof(pair{})); got != &c.pairs[1] {
		t.Errorf("At is %p, want %p", got, &c.pairs[1])
	}
	if got := Slice[pair](p, 3); &got[0] != &c.pairs[0] || len(got) != 3 {
		t.Errorf("Slice is %v", got)
	}
	clone := Clone[pair](p, 2)
	c.pairs[0].a = 9
	if len(clone) != 2 || clone[0].a != 1 {
		t.Errorf("Clone is %v", clone)
	}
	for _, n := range []int{0, -1} {
		if Slice[pair](p, n) != nil || Clone[pair](p, n) != nil {
			t.Errorf("%d elements are some", n)
		}
	}
	if Slice[pair](0, 3) != nil || Clone[pair](0, 3) != nil {
		t.Error("elements at NULL")
	}
}

func TestStrings(t *testing.T) {
	p := uintptr(unsafe.Pointer(&c.text))
	copy(c.text[:], "mlx5_0\x00rest")
	if got := String(p); got != "mlx5_0" {
		t.Errorf("String is %q", got)
	}
	copy(c.text[:], strings.Repeat("x", len(c.text)))
	if got := String(p); len(got) != maxString {
		t.Errorf("a string without an end has %d bytes, want %d", len(got), maxString)
	}
	if got := String(0); got != "" {
		t.Errorf("NULL is %q", got)
	}
	if got := string(CString("ab")); got != "ab\x00" || CString("") != nil {
		t.Errorf("CString is %q", got)
	}
	if SliceAddr(nil) != 0 || SliceAddr(c.text[1:]) != p+1 {
		t.Error("SliceAddr is not the address of the first byte")
	}
}

func TestHeap(t *testing.T) {
	v := &pair{7, 8}
	if p := Heap(unsafe.Pointer(v)); p != uintptr(unsafe.Pointer(v)) || Heap(nil) != 0 {
		t.Errorf("Heap is %#x, want %p", p, v)
	}
}
