//go:build !linux

package dcb

import "errors"

// Read reports that only Linux has this.
func Read(string) (*Port, error) { return nil, errors.ErrUnsupported }
