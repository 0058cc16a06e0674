//go:build !linux

package dma

import (
	"errors"
	"fmt"
	"runtime"
)

const maxNodes = 1024

func onlineNodes() string { return "" }

type region struct{}

func (region) unmap() error { return nil }

func alloc(int, *Options) (*Mem, error) {
	return nil, fmt.Errorf("dma: memory for devices on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
