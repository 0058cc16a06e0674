package ibv

import (
	"testing"
	"unsafe"
)

var layoutQP *QP // not on the stack

// With many QPs each post finds its QP in no cache, and what it costs is the number of cache lines. Of QP it is one,
// with all of its mu but the last three words, which an uncontended Lock seldom uses.
func TestPostSendLayout(t *testing.T) {
	for range 100 {
		layoutQP = new(QP)
		begin := uintptr(unsafe.Pointer(&layoutQP.sq.direct))
		end := uintptr(unsafe.Pointer(&layoutQP.sq.mu)) + unsafe.Sizeof(layoutQP.sq.mu) - 3*8 - 1
		if begin/64 != end/64 {
			t.Fatalf("what PostSend uses lies from %#x to %#x", begin, end)
		}
	}
}
