package testutil

import "testing"

func TestCommand(t *testing.T) {
	const want = "make test-emu PKG=./internal/testutil RUN=TestCommand"
	if have := command(t, "test-emu"); have != want {
		t.Errorf("%q, want %q", have, want)
	}
	t.Run("sub", func(t *testing.T) {
		if have := command(t, "test-emu"); have != want {
			t.Errorf("%q, want %q", have, want)
		}
	})
	t.Chdir(t.TempDir())
	if have := command(t, "test-rxe"); have != "make test-rxe RUN=TestCommand" {
		t.Errorf("outside of the repository: %q", have)
	}
}
