package secure

import "testing"

func TestGetenv(t *testing.T) {
	t.Setenv("PUREVERBS_SECURE_TEST", "value")
	defer func(m func() bool) { Mode = m }(Mode)
	for _, tt := range []struct {
		secure bool
		want   string
	}{{false, "value"}, {true, ""}} {
		Mode = func() bool { return tt.secure }
		if got := Getenv("PUREVERBS_SECURE_TEST"); got != tt.want {
			t.Errorf("secure %t: %q, want %q", tt.secure, got, tt.want)
		}
		if got := Getenv("PUREVERBS_SECURE_UNSET"); got != "" {
			t.Errorf("a variable that is not set is %q", got)
		}
	}
}

func TestMode(t *testing.T) {
	if mode() {
		t.Error("the test runs with more rights than its caller")
	}
}
