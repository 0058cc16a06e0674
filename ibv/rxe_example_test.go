package ibv_test

import (
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_Example runs the package's examples.
func TestRXE_Example(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	if got, err := transfer(rxe.Dev[0], "over the wire"); got != "over the wire" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := datagram(rxe.Dev[0], "to the other"); got != "to the other" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
