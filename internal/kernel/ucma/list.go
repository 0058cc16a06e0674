package ucma

import "github.com/pureverbs/pureverbs/internal/control"

// GetDevices is rdma_get_devices.
func (c *CM) GetDevices() (list control.Handle, handles []control.Handle, err error) {
	all, err := c.devices.all()
	if err != nil {
		return 0, nil, err
	}
	for _, o := range all {
		handles = append(handles, o.context)
	}
	h := c.handle()
	c.lists.put(h, all)
	return h, handles, nil
}

// FreeDevices is rdma_free_devices.
func (c *CM) FreeDevices(list control.Handle) {
	all, err := c.lists.get(list)
	if err != nil {
		return
	}
	c.lists.drop(list)
	for _, o := range all {
		c.devices.put(o)
	}
}
