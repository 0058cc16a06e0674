//go:build !linux

package ibv

func descriptorLimit() (cur, max uint64) { return 0, 0 }

func spareDescriptors(int) error { return nil }

func explainOpen(_ string, err error) error { return err }

func explainCMFile() error { return nil }
