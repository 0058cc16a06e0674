package ibv

import (
	"errors"
	"testing"
)

// TestLasting: what was asked for once is kept for the device, an error is not, and nothing is kept for libibverbs.
func TestLasting(t *testing.T) {
	bad := errors.New("bad")
	asked := 0
	read := func() (*uint8, error) {
		if asked++; asked == 1 {
			return nil, bad
		}
		v := uint8(asked)
		return &v, nil
	}
	v := &verbs{native: true}
	if _, err := v.lasting(7).sl.get(read); err != bad {
		t.Errorf("the error is %v", err)
	}
	for range 2 {
		if got, err := v.lasting(7).sl.get(read); err != nil || *got != 2 {
			t.Errorf("%v, %v; want what was read second", got, err)
		}
	}
	if got, err := v.lasting(8).sl.get(read); err != nil || *got != 3 {
		t.Errorf("another device has %v, %v", got, err)
	}
	library := new(verbs)
	if first := library.lasting(7); first == library.lasting(7) {
		t.Error("libibverbs uses a handle again, and something is kept for it")
	}
}
