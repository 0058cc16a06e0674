//go:build !linux

package ibv

func dupDescriptor(int) (int, error) { return -1, ErrNotSupported }

func closeRefused(int, int) {}
