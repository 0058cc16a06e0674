package ibv

import (
	"testing"

	"github.com/pureverbs/pureverbs/internal/friend"
)

// TestInternal opens Internal with the key, and with what others could make: nil, and a zero value by reflection.
func TestInternal(t *testing.T) {
	opens := func(key *friend.Key) (ok bool) {
		defer func() { ok = recover() == nil }()
		Internal.Show(key)
		return true
	}
	if !opens(friend.Mine) {
		t.Error("Internal refuses this module's key")
	}
	for _, key := range []*friend.Key{nil, new(friend.Key)} {
		if opens(key) {
			t.Errorf("Internal opens with the key %p", key)
		}
	}
}
