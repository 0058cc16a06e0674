package control

import "testing"

// TestNoVerbs calls one method of each kind.
func TestNoVerbs(t *testing.T) {
	var v Verbs = NoVerbs{}
	if h, err := v.AllocPD(1); h != 0 || err != ErrNoOp {
		t.Errorf("AllocPD is %d, %v", h, err)
	}
	if code, err := v.ReregMR(1, 0, 0, 0, 0, 0); code != 0 || err != ErrNoOp {
		t.Errorf("ReregMR is %d, %v", code, err)
	}
	if v.HasDeviceIndex() || v.CQCapacity(1) != 0 || v.Context(1) != (Context{}) {
		t.Error("a method without an error does not return the zero value")
	}
}
