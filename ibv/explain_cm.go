package ibv

import (
	"errors"
	"fmt"
	"syscall"
)

// explainCM adds the cause to an errno of librdmacm that says that this host cannot use rdma_cm. librdmacm lists
// devices with libibverbs and opens one file of its own; for all that is wrong with devices it has ENODEV (rdma-core
// v56.1, librdmacm/cma.c, ucma_init).
func explainCM(err error) error {
	var errno syscall.Errno
	if known := (*CredentialsError)(nil); errors.As(err, &known) || !errors.As(err, &errno) {
		return err
	}
	if d := explainDescriptors(err); d != err {
		return d
	}
	switch errno {
	case syscall.ENODEV, syscall.ENXIO, syscall.ENOENT, syscall.EACCES, syscall.EPERM:
	case syscall.ENOMEM: // of rsocket(3), for whatever it lacks
	default:
		return err
	}
	var why error
	if errno == syscall.ENODEV {
		why = whyNoDevice()
	}
	if why == nil {
		why = explainCMFile()
	}
	switch {
	case why != nil:
		return fmt.Errorf("%w (rdma_cm: %w)", why, err)
	case errno == syscall.EPERM:
		return fmt.Errorf("the kernel's rdma_cm speaks a version that this librdmacm does not know: %w", err)
	}
	return err
}

// whyNoDevice returns why a device of this host cannot be opened, or nil if all can.
func whyNoDevice() error {
	var (
		names []string
		errs  []error
	)
	err := eachDevice(func(_ *verbs, d DeviceInfo, _ uintptr) (bool, error) {
		names = append(names, d.Name)
		if err := explainOpen(d.Name, nil); err != nil {
			errs = append(errs, err)
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	if err := unlisted(names); err != nil {
		errs = append(errs, err)
	}
	if len(names) == 0 && len(errs) == 0 {
		return fmt.Errorf("%w: %s", ErrNoDevice, have(nil))
	}
	return errors.Join(errs...)
}
