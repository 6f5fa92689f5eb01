"""The listings of the papers, run as they are printed but for imports.

003, Listings 6, 8 and 11 to 13; 002, Listings 42 and 45. Where a listing has an ellipsis, the
loops or buffers that it stands for are written out. Of Listings 9 and 10, tests/figure_20.py has
the loops.
"""

# The listings are kept as they are printed.
# ruff: noqa: E741, F841, SIM108
from __future__ import annotations

import numpy as np
import pytest

from mdtensor.directive import (
    CC,
    PW,
    Buffer,
    Scalar,
    add,
    cc,
    char,
    combine_ops,
    f_mul,
    fp32,
    fp64,
    inp,
    inp_view,
    int32,
    int64,
    md_hom,
    mdh,
    out,
    out_view,
    ps,
    pw,
    pw_custom_func,
)
from mdtensor.errors import DTypeError

BasicType = ScalarType = object
pytestmark = pytest.mark.usefixtures("by_reference")


# fmt: off
def listing_6( T:BasicType, I:int,K:int ):
    @mdh()
    def matvec__T_I_K():
        return (
            out_view[T]( w = [lambda i,k: (i)] ),
            md_hom[I,K]( f_mul, (cc,pw(add)) ),
            inp_view[T,T]( M = [lambda i,k: (i,k)] ,
                          v = [lambda i,k: (k) ] )
        )
    return matvec__T_I_K


def listing_8( T:BasicType , I:int , K:int ):
    @mdh( out( w = Buffer[T] ) ,
          inp( M = Buffer[T] , v = Buffer[T] ) ,
          combine_ops( cc , pw(add) ) )
    def mdh_matvec__T_I_K( w , M,v ):
        for i in range(I):
            for k in range(K):
                w[i] = M[i,k] * v[k]
    return mdh_matvec__T_I_K






def listing_11( N:int,I:int ):
    db18 = { 'values':fp64[8] }
    chr46 = { 'str':char[46] }

    @pw_custom_func()
    def prl_max( res:Scalar[int64,fp64,int32],
                 lhs:Scalar[int64,fp64,int32],
                 rhs:Scalar[int64,fp64,int32] ):
        if( lhs['id_measure'] == 14 and
            rhs['id_measure'] != 14 ):
            res['match_id'] = lhs['match_id']
            res['match_weight'] = lhs['match_weight']
            res['id_measure'] = lhs['id_measure']
        elif( rhs['id_measure'] == 14 and
              lhs['id_measure'] != 14 ):
            res['match_id'] = rhs['match_id']
            res['match_weight'] = rhs['match_weight']
            res['id_measure'] = rhs['id_measure']
        elif( lhs['match_weight'] >= rhs['match_weight'] ):
            res['match_id'] = lhs['match_id']
            res['match_weight'] = lhs['match_weight']
            res['id_measure'] = lhs['id_measure']
        else:
            res['match_id'] = rhs['match_id']
            res['match_weight'] = rhs['match_weight']
            res['id_measure'] = rhs['id_measure']

    @mdh( out( match_id = Buffer[int64] ,
               match_weight = Buffer[fp64] ,
               id_measure = Buffer[int32] ),
          inp( probM = Buffer[db18] ,
               n_name = Buffer[chr46] ,
               i_name = Buffer[chr46] ,
               n_birth = Buffer[int64] ,
               i_birth = Buffer[int64] ,
               i_id = Buffer[int64] ),
          combine_ops( cc, pw(prl_max) ) )
    def prl__N_I( match_id,match_weight,id_measure,
                  probM,
                  n_name,i_name,n_birth,i_birth,i_id ):
        for n in range(N):
            for i in range(I):
                tmp_match_weight:fp64
                tmp_id_measure:int32
                tmp_match_weight = 0.0
                same = 0
                for c in range(4):
                    if n_name[n]['str'][c] == i_name[i]['str'][c]:
                        tmp_match_weight += probM[n]['values'][c]
                        same += 1
                if n_birth[n] == i_birth[i]:
                    tmp_match_weight += probM[n].values[4]
                    same += 10
                if same == 14:
                    tmp_id_measure = 14
                else:
                    tmp_id_measure = 0
                match_id[n] = i_id[i]
                match_weight[n] = tmp_match_weight
                id_measure[n] = tmp_id_measure
    return prl__N_I


def listing_12(T:BasicType,N:int,P:int,Q:int,K:int,
        R:int,S:int,C:int):
    @mdh( out( res=Buffer[T] ),
          inp( img=Buffer[T,N,(2*P)+R-1,
                  (2*Q)+S-1,C] ,
              flt = Buffer[T] ),
          combine_ops( cc,cc,cc,cc,
                       pw(add),pw(add),pw(add) ) )
    def mcc__T_N_P_Q_K_R_S_C( res, img,flt ):
        for n in range(N):
            for p in range(P):
                for q in range(Q):
                    for k in range(K):
                        for r in range(R):
                            for s in range(S):
                                for c in range(C):
                                    res[n,p,q,k] = img[n,(2*p)+r,
                                                       (2*q)+s,c] * \
                                                   flt[k,r,s,c]
    return mcc__T_N_P_Q_K_R_S_C




def listing_13( T:BasicType, I:int,J:int ):
    @mdh( out( Out = Buffer[T] ) ,
          inp( Inp = Buffer[T] ) ,
          combine_ops( ps(add), pw(add) ) )
    def mdh_mbbs__T_I_J( O, I ):
       for i in range(I):
           for j in range(J):
               O[i] = I[i,j]
    return mdh_mbbs__T_I_J


def listing_42( T: ScalarType, I: int, K: int ):
    @mdh(outputs = {'w':Buffer[ T,[I] ]},
        inputs = {'M':Buffer[ T,[I,K] ], 'v':Buffer[ T,[K] ]} )
    def matvec_mdh():
        def f_mul( out, inp ):
            out['w'] = inp['M'] * inp['v']

        def plus(res, lhs, rhs):
            res = lhs + rhs

        return (
            out_view[ T ]( {'w': [lambda i, k: (i)]} ),
            md_hom[ I,K ]( f_mul, (cc, pw(plus)) ),
            inp_view[ T,T ]( {'M': [lambda i, k: (i, k)],
                            'v': [lambda i, k: (k)] } )
        )

    return matvec_mdh


def listing_45(T: ScalarType, I: int, K: int):
    @mdh( out( w = Buffer[T, [I]] ),
          inp( M = Buffer[T, [I, K]], v = Buffer[T, [K]] ) )
    def mdh_matvec():
        def mul(out, inp):
            out['w'] = inp['M'] * inp['v']

        def scalar_plus(res, lhs, rhs):
            res['w'] = lhs['w'] + rhs['w']

        return (
            out_view[T]( w = [lambda i, k: (i)] ),
            md_hom[I, K]( mul, ( CC, PW(scalar_plus) ) ),
            inp_view[T, T]( M = [lambda i, k: (i, k)] ,
                            v = [lambda i, k: (k) ] )
        )
    return mdh_matvec
# fmt: on


RNG = np.random.default_rng(0)


def _random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("listing", [listing_6, listing_8, listing_42, listing_45])
@pytest.mark.parametrize(("i", "k"), [(4, 5), (1, 7), (3, 1)])
def test_matvec(listing, i: int, k: int) -> None:
    matvec = listing(fp32, i, k)
    M, v, w = _random(i, k), _random(k), np.full(i, 7, np.float32)
    np.testing.assert_allclose(matvec(M, v), M @ v, rtol=1e-5)
    matvec(w, M, v)
    np.testing.assert_allclose(w, M @ v, rtol=1e-5)


def test_types_may_be_numpys() -> None:
    M, v = np.ones((2, 3)), np.arange(3.0)
    for said in (np.float64, "f8", fp64, np.dtype("f8")):
        np.testing.assert_array_equal(listing_8(said, 2, 3)(M, v), [3, 3])


def test_mcc() -> None:
    N, P, Q, K, R, S, C = 2, 3, 2, 3, 3, 2, 2
    img, flt = _random(N, 2 * P + R - 1, 2 * Q + S - 1, C), _random(K, R, S, C)
    res = listing_12(fp32, N, P, Q, K, R, S, C)(img, flt)
    expected = np.zeros((N, P, Q, K))
    for r in range(R):
        for s in range(S):
            window = img[:, r : r + 2 * P : 2, s : s + 2 * Q : 2]
            expected += np.einsum("npqc,kc->npqk", window, flt[:, r, s])
    np.testing.assert_allclose(res, expected, rtol=1e-4, atol=1e-5)


def test_mbbs() -> None:
    matrix = _random(5, 4)
    np.testing.assert_allclose(
        listing_13(fp32, 5, 4)(matrix), np.cumsum(matrix.sum(axis=1)), rtol=1e-5
    )


def test_prl() -> None:
    N, I = 4, 6
    chars = np.dtype([("str", "u1", (46,))])
    n_name, i_name = np.zeros(N, chars), np.zeros(I, chars)
    n_name["str"][:, :4] = RNG.integers(0, 2, (N, 4))
    i_name["str"][:, :4] = RNG.integers(0, 2, (I, 4))
    prob = np.zeros(N, np.dtype([("values", "f8", (8,))]))
    prob["values"] = RNG.random((N, 8))
    n_birth, i_birth = RNG.integers(0, 2, N), RNG.integers(0, 2, I)
    ids = np.arange(100, 100 + I)
    found = listing_11(N, I)(prob, n_name, i_name, n_birth, i_birth, ids)
    texts = listing_11(N, I)(prob, n_name.view("S46"), i_name.view("S46"), n_birth, i_birth, ids)
    for one, other in zip(found, texts, strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(DTypeError) as caught:
        listing_11(N, I)(prob, np.zeros(N, "S45"), i_name, n_birth, i_birth, ids)
    assert str(caught.value) == (
        "n_name holds |S45, but was declared as Buffer[[('str', 'u1', (46,))]]\n"
        "  hint: declare its type: Buffer[n_name.dtype]"
    )
    agree = n_name["str"][:, None, :4] == i_name["str"][None, :, :4]
    born = n_birth[:, None] == i_birth[None, :]
    weight = (agree * prob["values"][:, None, :4]).sum(-1) + born * prob["values"][:, None, 4]
    measure = np.where(agree.all(-1) & born, 14, 0)
    for n in range(N):
        best = max(range(I), key=lambda i: (measure[n, i] == 14, weight[n, i], -i))
        assert found[0][n] == ids[best]
        np.testing.assert_allclose(found[1][n], weight[n, best], rtol=1e-12)
        assert found[2][n] == measure[n, best]
