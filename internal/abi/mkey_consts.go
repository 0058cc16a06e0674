package abi

// Memory keys, signatures and encryption. C: enum mlx5dv_* (infiniband/mlx5dv.h).
const (
	MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT                        = 1
	MLX5DV_QP_EX_WITH_MR_INTERLEAVED                            = 1
	MLX5DV_QP_EX_WITH_MR_LIST                                   = 2
	MLX5DV_WC_UMR                                               = 135
	MLX5DV_SIG_TYPE_T10DIF                                      = 0
	MLX5DV_SIG_TYPE_CRC                                         = 1
	MLX5DV_SIG_T10DIF_CRC                                       = 0
	MLX5DV_SIG_T10DIF_CSUM                                      = 1
	MLX5DV_SIG_CRC_TYPE_CRC32                                   = 0
	MLX5DV_SIG_CRC_TYPE_CRC32C                                  = 1
	MLX5DV_SIG_CRC_TYPE_CRC64_XP10                              = 2
	MLX5DV_BLOCK_SIZE_512                                       = 0
	MLX5DV_BLOCK_SIZE_520                                       = 1
	MLX5DV_BLOCK_SIZE_4048                                      = 2
	MLX5DV_BLOCK_SIZE_4096                                      = 3
	MLX5DV_BLOCK_SIZE_4160                                      = 4
	MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE                 = 2
	MLX5DV_MKEY_INIT_ATTR_FLAGS_CRYPTO                          = 4
	MLX5DV_MKEY_INIT_ATTR_FLAGS_UPDATE_TAG                      = 8
	MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE               = 16
	MLX5DV_QP_EX_WITH_MKEY_CONFIGURE                            = 4
	MLX5DV_QP_EX_WITH_RAW_WQE                                   = 8
	MLX5DV_QP_EX_WITH_MEMCPY                                    = 16
	MLX5DV_SIG_T10DIF_FLAG_REF_REMAP                            = 1
	MLX5DV_SIG_T10DIF_FLAG_APP_ESCAPE                           = 2
	MLX5DV_SIG_T10DIF_FLAG_APP_REF_ESCAPE                       = 4
	MLX5DV_SIG_MASK_T10DIF_GUARD                                = 192
	MLX5DV_SIG_MASK_T10DIF_APPTAG                               = 48
	MLX5DV_SIG_MASK_T10DIF_REFTAG                               = 15
	MLX5DV_SIG_MASK_CRC32                                       = 240
	MLX5DV_SIG_MASK_CRC32C                                      = 240
	MLX5DV_SIG_MASK_CRC64_XP10                                  = 255
	MLX5DV_SIG_BLOCK_ATTR_FLAG_COPY_MASK                        = 1
	MLX5DV_CRYPTO_STANDARD_AES_XTS                              = 0
	MLX5DV_SIGNATURE_CRYPTO_ORDER_SIGNATURE_AFTER_CRYPTO_ON_TX  = 0
	MLX5DV_SIGNATURE_CRYPTO_ORDER_SIGNATURE_BEFORE_CRYPTO_ON_TX = 1
	MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR                        = 1
	MLX5DV_WC_RAW_WQE                                           = 136
	MLX5DV_WC_MEMCPY                                            = 137
	MLX5DV_MKEY_NO_ERR                                          = 0
	MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD                             = 1
	MLX5DV_MKEY_SIG_BLOCK_BAD_REFTAG                            = 2
	MLX5DV_MKEY_SIG_BLOCK_BAD_APPTAG                            = 3
	MLX5DV_CRYPTO_LOGIN_STATE_VALID                             = 0
	MLX5DV_CRYPTO_LOGIN_STATE_NO_LOGIN                          = 1
	MLX5DV_CRYPTO_LOGIN_STATE_INVALID                           = 2
	MLX5DV_CRYPTO_KEY_SIZE_128                                  = 0
	MLX5DV_CRYPTO_KEY_SIZE_256                                  = 1
	MLX5DV_CRYPTO_KEY_PURPOSE_AES_XTS                           = 0
	MLX5DV_DEK_STATE_READY                                      = 0
	MLX5DV_DEK_STATE_ERROR                                      = 1
	MLX5DV_DEK_INIT_ATTR_CRYPTO_LOGIN                           = 1
)
