package mlx5dv

import (
	"math/bits"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
)

// CryptoLogin has the credentials of an application that logs in to a device, before it makes wrapped keys.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: struct mlx5dv_crypto_login_attr.
type CryptoLogin struct {
	CredentialID uint32
	ImportKEK    uint32 // the key that wraps others
	Credential   [48]byte
}

// encrypts returns how the device encrypts, or an error if it does not.
func (c *call) encrypts() (*Crypto, error) {
	attr, err := queryDevice(c.lib, c.handle)
	if err != nil {
		return nil, err
	}
	if attr.Crypto.Engines == 0 {
		return nil, noCrypto(c.dev.Name())
	}
	return &attr.Crypto, nil
}

// crypto calls f if the device encrypts.
func crypto(dev *ibv.Device, op string, f func(lib control.MLX5, handle uintptr) error) error {
	c := begin(dev, op)
	return c.do(func() error {
		if _, err := c.encrypts(); err != nil {
			return err
		}
		return f(c.lib, c.handle)
	})
}

func noCrypto(device string) error {
	return &ibv.UnsupportedError{Feature: "encryption",
		Need: "a device with DeviceAttr.Crypto, and libmlx5 of rdma-core v37 or later", Have: device + " without it"}
}

// LoginCrypto logs in to the device.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_crypto_login(3), of libmlx5 v37.
func LoginCrypto(dev *ibv.Device, login CryptoLogin) error {
	return crypto(dev, "mlx5dv crypto login", func(lib control.MLX5, handle uintptr) error {
		return lib.CryptoLogin(handle, &abi.MLX5DVCryptoLoginAttr{CredentialID: login.CredentialID,
			ImportKEKID: login.ImportKEK, Credential: login.Credential})
	})
}

// QueryCrypto returns whether the login is valid.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_crypto_login_query_state(3), of libmlx5 v37.
func QueryCrypto(dev *ibv.Device) (s CryptoState, err error) {
	state := new(uint32)
	err = crypto(dev, "mlx5dv query crypto login", func(lib control.MLX5, handle uintptr) error {
		return lib.CryptoLoginQueryState(handle, state)
	})
	return CryptoState(*state), err
}

// LogoutCrypto ends the login.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_crypto_logout(3), of libmlx5 v37.
func LogoutCrypto(dev *ibv.Device) error {
	return crypto(dev, "mlx5dv crypto logout", control.MLX5.CryptoLogout)
}

// DEKOptions are the options of CreateDEK.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: struct mlx5dv_dek_init_attr.
type DEKOptions struct {
	Key    []byte // of AES-XTS: wrapped, after LoginCrypto, if DeviceAttr.Crypto has ImportAESXTS; else in the clear
	Wide   bool   // of 256 bits, not 128
	Keytag bool   // the key ends with 8 bytes, which have to be named again where it is used
	Opaque [8]byte
}

// DEK is a key to encrypt data with. It belongs to its PD.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: struct mlx5dv_dek.
type DEK struct {
	node
	number uint32 // the device's, if libmlx5 does not keep it
}

// CreateDEK gives the device a key.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_dek_create(3), of libmlx5 v37.
func CreateDEK(pd *ibv.PD, opt *DEKOptions) (*DEK, error) {
	c, d := beginOn(pd, "mlx5dv create dek"), new(DEK)
	return create(c, d, &d.node, "dek", func() (h uintptr, err error) {
		attr := &abi.MLX5DVDEKInitAttr{KeyPurpose: abi.MLX5DV_CRYPTO_KEY_PURPOSE_AES_XTS}
		switch {
		case opt == nil || len(opt.Key) == 0:
			return 0, &ibv.ArgError{Arg: "Key", Got: "empty", Want: "a key"}
		case len(opt.Key) > len(attr.Key):
			return 0, &ibv.LimitError{What: "bytes of Key", Asked: uint64(len(opt.Key)),
				Limit: uint64(len(attr.Key)), Where: "struct mlx5dv_dek_init_attr"}
		}
		caps, err := c.encrypts()
		if err != nil {
			return 0, err
		}
		if caps.WrappedImport&ImportAESXTS == 0 && c.lib.AsksForClearKeys() {
			attr.CompMask = abi.MLX5DV_DEK_INIT_ATTR_CRYPTO_LOGIN // of no login
		}
		if attr.PD, err = c.useVerbs(verbs.Ref(pd)); err != nil {
			return 0, err
		}
		if opt.Wide {
			attr.KeySize = abi.MLX5DV_CRYPTO_KEY_SIZE_256
		}
		if opt.Keytag {
			attr.HasKeytag = 1
		}
		attr.Opaque = opt.Opaque
		copy(attr.Key[:], opt.Key)
		h, d.number, err = c.lib.DEKCreate(c.handle, attr)
		return h, err
	})
}

// DEKInfo is the state of a DEK, as the device reports it.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: struct mlx5dv_dek_attr.
type DEKInfo struct {
	Ready  bool // not in error
	Opaque [8]byte
}

// Query asks for the state of the key.
//
// C: mlx5dv_dek_query(3).
func (d *DEK) Query() (DEKInfo, error) {
	attr := new(abi.MLX5DVDEKAttr)
	if err := d.do("mlx5dv query dek", func() error { return d.lib.DEKQuery(d.handle, attr) }); err != nil {
		return DEKInfo{}, err
	}
	return DEKInfo{attr.State == abi.MLX5DV_DEK_STATE_READY, attr.Opaque}, nil
}

// Close takes the key from the device.
//
// C: mlx5dv_dek_destroy(3).
func (d *DEK) Close() error { return d.destroy(d.lib.DEKDestroy) }

// BlockCrypto describes how data under an Mkey is encrypted and decrypted, by AES-XTS. The DEK has to stay open as long
// as the key is used.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: struct mlx5dv_crypto_attr.
type BlockCrypto struct {
	DEK            *DEK
	EncryptOnSend  bool       // data is in the clear in memory, and encrypted on the wire; else the other way round
	SignatureFirst bool       // when data is sent, it is signed before it is encrypted
	DataUnit       BlockSizes // one: what is encrypted at a time
	Tweak          [16]byte   // of the first unit
	Keytag         [8]byte    // of a DEK with Keytag
}

func (c *BlockCrypto) check() error {
	switch {
	case c.DEK == nil:
		return &ibv.ArgError{Arg: "Crypto.DEK", Got: "nil", Want: "one of CreateDEK"}
	case bits.OnesCount64(uint64(c.DataUnit)) != 1 || c.DataUnit > Block4160:
		return &ibv.ArgError{Arg: "Crypto.DataUnit", Got: c.DataUnit.String(),
			Want: "one of " + (Block4160<<1 - 1).String()}
	}
	return nil
}

// toC returns the encryption as libmlx5 takes it. It was checked.
func (c *BlockCrypto) toC() *abi.MLX5DVCryptoAttr {
	a := &abi.MLX5DVCryptoAttr{
		CryptoStandard:       abi.MLX5DV_CRYPTO_STANDARD_AES_XTS,
		SignatureCryptoOrder: abi.MLX5DV_SIGNATURE_CRYPTO_ORDER_SIGNATURE_AFTER_CRYPTO_ON_TX,
		DataUnitSize:         uint32(bits.TrailingZeros64(uint64(c.DataUnit))), // C counts these bits
		InitialTweak:         c.Tweak, DEK: c.DEK.handle, Keytag: c.Keytag,
	}
	if c.EncryptOnSend {
		a.EncryptOnTx = 1
	}
	if c.SignatureFirst {
		a.SignatureCryptoOrder = abi.MLX5DV_SIGNATURE_CRYPTO_ORDER_SIGNATURE_BEFORE_CRYPTO_ON_TX
	}
	return a
}
