package ibv

import (
	"testing"
	"unsafe"
)

var layoutQP *QP // not on the stack

// With many QPs each post finds its QP in no cache, and what it costs is the number of cache lines. Of QP it is one,
// with all of sqMu but the first three words, which an uncontended Lock does not use.
func TestPostSendLayout(t *testing.T) {
	for range 100 {
		layoutQP = new(QP)
		begin, end := uintptr(unsafe.Pointer(&layoutQP.sqMu))+3*8, uintptr(unsafe.Pointer(&layoutQP.state))+8-1
		if begin/64 != end/64 {
			t.Fatalf("what PostSend uses lies from %#x to %#x", begin, end)
		}
	}
}
