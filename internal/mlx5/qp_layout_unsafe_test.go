package mlx5

import (
	"testing"
	"unsafe"
)

// The comments at the fields of QP and SQ tell what shares a cache line.
func TestQPAlignment(t *testing.T) {
	for range 100 {
		if q := NewQP(1, true, nil, nil, nil); uintptr(unsafe.Pointer(q))%64 != 0 {
			t.Fatalf("a QP at %p", q)
		}
	}
}
