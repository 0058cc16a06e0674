package ibv

import (
	"errors"
	"testing"
)

// TestFake_ManualChannelRemoved removes the device while somebody reads the events of a channel.
func TestFake_ManualChannelRemoved(t *testing.T) {
	needFake(t)
	d := must(Open("fake0"))(t)
	ch := must(d.CreateManualCompChannel())(t)
	got := make(chan error, 1)
	go func() { got <- ch.ReadEvents() }()
	friends{}.NoteRemoved(d)
	if err := <-got; !errors.Is(err, ErrDeviceRemoved) {
		t.Errorf("%v, want %v", err, ErrDeviceRemoved)
	}
	if err := ch.ReadEvents(); !errors.Is(err, ErrDeviceRemoved) {
		t.Errorf("again: %v, want %v", err, ErrDeviceRemoved)
	}
	ok(t, ch.Close())
	ok(t, d.Close())
}
