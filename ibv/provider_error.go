package ibv

import (
	"strings"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/internal/provider"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// ProviderError reports a driver library that libibverbs would load and that would end the
// process. It matches ErrLibrary.
type ProviderError struct {
	Err error // the file and what is wrong with it
}

func (e *ProviderError) Error() string {
	return "libibverbs would load a driver that ends the process: " + strings.ReplaceAll(e.Err.Error(), "\n", "; ") +
		"; reinstall it"
}

// Unwrap returns Err.
func (e *ProviderError) Unwrap() error { return e.Err }

// Is reports whether target is ErrLibrary.
func (e *ProviderError) Is(target error) bool { return target == ErrLibrary }

// checkProviders returns what checks the drivers of a libibverbs before it loads them, which it does when it first
// finds a device.
func checkProviders(library string) func() error {
	var good atomic.Bool
	return func() error {
		if good.Load() {
			return nil
		}
		names, err := sysfs.DefaultRoot().DeviceNames()
		if err != nil || len(names) == 0 {
			return nil // libibverbs will load no driver
		}
		if err := provider.Scan(library).Fatal(); err != nil {
			return &ProviderError{Err: err}
		}
		good.Store(true)
		return nil
	}
}
