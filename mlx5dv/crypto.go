package mlx5dv

import "github.com/pureverbs/pureverbs/ibv"

func noCrypto(device string) error {
	return &ibv.UnsupportedError{Feature: "encryption", Need: "a device with DeviceAttr.Crypto, and libmlx5 of rdma-core " +
		"v37 or later", Have: device + " without it"}
}
