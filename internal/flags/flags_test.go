package flags

import "testing"

func TestString(t *testing.T) {
	type mask uint8
	names := []string{"A", "", "C"}
	for v, want := range map[mask]string{0: "0", 1: "A", 5: "A|C", 2: "0x2", 0x87: "A|C|0x82"} {
		if got := String(v, names); got != want {
			t.Errorf("%#x is %q, want %q", uint8(v), got, want)
		}
	}
	if got := String(uint64(1)<<63|1, names); got != "A|0x8000000000000000" {
		t.Errorf("the highest bit is %q", got)
	}
}

func TestName(t *testing.T) {
	names := []string{1: "A", 3: "C"}
	for v, want := range map[int64]string{1: "A", 3: "C", 0: "T(0)", 2: "T(2)", 4: "T(4)", -1: "T(-1)"} {
		if got := Name("T", v, names); got != want {
			t.Errorf("%d is %q, want %q", v, got, want)
		}
	}
}
