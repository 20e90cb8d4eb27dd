/** How far a 95 % interval of a mean of few values reaches. */

/** P(|t| < √n · tan θ) for n degrees of freedom (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4). */
function within(angle: number, n: number): number {
  const cos = Math.cos(angle);
  const odd = n % 2 === 1;
  let sum = 0;
  let term = odd ? cos : 1;
  for (let power = odd ? 1 : 0; power <= n - 2; power += 2) {
    sum += term;
    term *= (cos * cos * (power + 1)) / (power + 2);
  }
  return odd ? (2 / Math.PI) * (angle + Math.sin(angle) * sum) : Math.sin(angle) * sum;
}

const known = new Map<number, number>();

/** The 97.5 % quantile of Student's t with n degrees of freedom, n a whole number from 1 on. */
export function studentT(n: number): number {
  const found = known.get(n);
  if (found !== undefined) return found;
  let low = 0;
  let high = Math.PI / 2;
  for (let i = 0; i < 60; i++) {
    const middle = (low + high) / 2;
    if (within(middle, n) < 0.95) low = middle;
    else high = middle;
  }
  const quantile = Math.sqrt(n) * Math.tan(low);
  known.set(n, quantile);
  return quantile;
}
