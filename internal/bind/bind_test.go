package bind

import (
	"errors"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/loader"
)

// TestLibMissing calls functions that libibverbs lacks in each way, and one that is hidden.
func TestLibMissing(t *testing.T) {
	testutil.NeedLibrary(t)
	l, err := Open(loader.IBVerbs)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]func(name string) error{
		"Symbol":    func(name string) error { _, err := l.Symbol(name); return err },
		"Ptr":       func(name string) error { _, err := l.Ptr(name); return err },
		"Err":       func(name string) error { return l.Err(name) },
		"Minus1":    func(name string) error { return l.Minus1(name) },
		"Minus1Int": func(name string) error { _, err := l.Minus1Int(name); return err },
		"NegErrno":  func(name string) error { _, err := l.NegErrno(name); return err },
		"Count":     func(name string) error { _, err := l.Count(name); return err },
		"Size":      func(name string) error { _, err := l.Size(name); return err },
		"Void":      func(name string) error { return l.Void(name) },
		"Int":       func(name string) error { _, err := l.Int(name); return err },
		"Uint64":    func(name string) error { _, err := l.Uint64(name); return err },
		"String":    func(name string) error { _, err := l.String(name); return err },
	}
	const there = "ibv_get_device_list"
	if !l.Has(there) || calls["Symbol"](there) != nil {
		t.Errorf("%s has no %s", l.Path(), there)
	}
	undo := Hide("v99", there)
	for name, call := range calls {
		for symbol, since := range map[string]string{"ibv_not_there": "", there: "v99"} {
			var missing *loader.SymbolError
			err := call(symbol)
			if !errors.As(err, &missing) || !errors.Is(err, loader.ErrNotSupported) {
				t.Errorf("%s of %s: %v", name, symbol, err)
			} else if missing.Symbol != symbol || missing.Library != loader.IBVerbs || missing.Since != since {
				t.Errorf("%s of %s: %+v", name, symbol, *missing)
			}
		}
	}
	if l.Has(there) {
		t.Error("Hide hides nothing")
	}
	if undo(); !l.Has(there) {
		t.Error("it stays hidden")
	}
}
