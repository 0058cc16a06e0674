package mlx5

import (
	"encoding/binary"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
)

const (
	generalDEK   = 0x0c
	generalLogin = 0x1f
)

// CryptoLogin logs in to the device.
func (c *context) CryptoLogin(a *abi.MLX5DVCryptoLoginAttr) error {
	const most = 1<<24 - 1
	const need = abi.MLX5DV_CRYPTO_CAPS_CRYPTO | abi.MLX5DV_CRYPTO_CAPS_WRAPPED_CRYPTO_OPERATIONAL
	c.login.mu.Lock()
	defer c.login.mu.Unlock()
	g := c.queryCaps(capsGeneral)
	switch {
	case a.CompMask != 0:
		return syscall.EINVAL
	case c.login.made != nil:
		return syscall.EEXIST
	case g.crypto(c).Flags&need != need || !g.hasGeneral(generalLogin):
		return syscall.EOPNOTSUPP
	case a.CredentialID > most || a.ImportKEKID > most:
		return syscall.EINVAL
	}
	in := generalCommand(createGeneral, generalLogin, 0, generalObject)
	o := in[generalHead:] // C: struct mlx5_ifc_crypto_login_obj_bits
	binary.BigEndian.PutUint32(o[16:], a.CredentialID)
	binary.BigEndian.PutUint32(o[20:], a.ImportKEKID)
	copy(o[64:], a.Credential[:])
	made, id, err := c.makeGeneral(in)
	if err != nil {
		return err
	}
	c.login.made, c.login.id = &made, id
	return nil
}

// CryptoLoginQueryState returns whether the login is valid.
func (c crypto) CryptoLoginQueryState(state *uint32) error {
	c.login.mu.Lock()
	defer c.login.mu.Unlock()
	if c.login.made == nil {
		*state = abi.MLX5DV_CRYPTO_LOGIN_STATE_NO_LOGIN
		return nil
	}
	o, err := c.login.made.queryGeneral(generalLogin, c.login.id)
	if err != nil {
		return err
	}
	const valid, invalid = 0, 1 // C: MLX5_CRYPTO_LOGIN_OBJ_STATE_*
	switch o[16] & 0xf {
	case valid:
		*state = abi.MLX5DV_CRYPTO_LOGIN_STATE_VALID
	case invalid:
		*state = abi.MLX5DV_CRYPTO_LOGIN_STATE_INVALID
	default:
		return syscall.EINVAL
	}
	return nil
}

// CryptoLogout ends the login.
func (c crypto) CryptoLogout() error {
	c.login.mu.Lock()
	defer c.login.mu.Unlock()
	if c.login.made == nil {
		return syscall.ENOENT
	}
	err := c.login.made.end()
	if err == nil {
		c.login.made = nil
	}
	return err
}

// importable reports whether the device takes a key as the attributes have it: wrapped after a login, else in the
// clear.
func (c crypto) importable(a *abi.MLX5DVDEKInitAttr, caps abi.MLX5DVCryptoCaps) bool {
	const wrapped = abi.MLX5DV_CRYPTO_WRAPPED_IMPORT_METHOD_CAP_AES_XTS
	if a.CompMask&abi.MLX5DV_DEK_INIT_ATTR_CRYPTO_LOGIN != 0 { // of no login
		return caps.WrappedImportMethod&wrapped == 0
	}
	c.login.mu.Lock()
	defer c.login.mu.Unlock()
	return c.login.made != nil && caps.WrappedImportMethod&wrapped != 0
}

// AsksForClearKeys returns true.
func (r *Rings) AsksForClearKeys() bool { return true }

// DEKCreate gives the device a key.
func (c crypto) DEKCreate(a *abi.MLX5DVDEKInitAttr) (*dek, uint32, error) {
	p, err := get[pd](c.v, a.PD)
	if err != nil {
		return nil, 0, err
	}
	g := c.queryCaps(capsGeneral)
	caps := g.crypto(c.context)
	const aesXTS, keytag = 0x3, 0x80
	switch {
	case caps.CryptoEngines == 0 || !g.hasGeneral(generalDEK):
		return nil, 0, syscall.EOPNOTSUPP
	case p.c != c.context, a.KeyPurpose != abi.MLX5DV_CRYPTO_KEY_PURPOSE_AES_XTS,
		a.KeySize > abi.MLX5DV_CRYPTO_KEY_SIZE_256,
		a.CompMask&^abi.MLX5DV_DEK_INIT_ATTR_CRYPTO_LOGIN != 0, a.CryptoLogin != 0, !c.importable(a, caps):
		return nil, 0, syscall.EINVAL
	}
	in := generalCommand(createGeneral, generalDEK, 0, generalObject)
	o := in[generalHead:] // C: struct mlx5_ifc_encryption_key_obj_bits
	o[10] = uint8(a.KeySize)
	o[11] = aesXTS | sum(choice[uint8]{a.HasKeytag != 0, keytag})
	binary.BigEndian.PutUint32(o[12:], p.device)
	copy(o[48:], a.Opaque[:])
	copy(o[64:], a.Key[:])
	d := new(dek)
	if d.obj, d.id, err = c.makeGeneral(in); err != nil {
		return nil, 0, err
	}
	return d, d.id, nil
}

// DEKQuery asks for the state of a key.
func (d *dek) DEKQuery(a *abi.MLX5DVDEKAttr) error {
	o, err := d.queryGeneral(generalDEK, d.id)
	if err != nil {
		return err
	}
	if a.State = uint32(o[8]); a.State > abi.MLX5DV_DEK_STATE_ERROR {
		return syscall.EINVAL
	}
	copy(a.Opaque[:], o[48:])
	return nil
}

// DEKDestroy takes a key from the device.
func (d *dek) DEKDestroy() error { return d.end() }
